"""A callback begins anew in each fit that continues none, and in nothing else."""

import pytest

from lt_core import Callback, Logger


@pytest.fixture
def data(loader):
    return loader(20)


class Counts(Callback):
    """Counts batches, as one would where only one fit counts."""

    def __init__(self):
        self.batches, self.anew, self.order = 0, 0, []

    def begin_anew(self, trainer):
        self.batches, self.anew = 0, self.anew + 1
        self.order.append("begin_anew")

    def setup(self, trainer, pl_module, stage):
        self.order.append("setup")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        self.batches += 1

    def state_dict(self):
        return {"batches": self.batches}

    def load_state_dict(self, state_dict):
        self.batches = state_dict["batches"]
        self.order.append("load_state_dict")


def by_the_same_trainer_with_another_module(trainer, counts, first, net, data):
    first.fit(net(), data)


def by_another_trainer(trainer, counts, first, net, data):
    trainer(callbacks=[counts]).fit(net(), data)


def by_another_trainer_with_the_same_module(trainer, counts, first, net, data):
    trainer(callbacks=[counts]).fit(first.lightning_module, data)


def after_a_fit_that_failed(trainer, counts, first, net, data):
    with pytest.raises(ZeroDivisionError):
        first.fit(net(on_train_start=lambda: 1 / 0), data)
    counts.anew -= 1  # that one began anew too
    first.fit(net(), data)


def from_configure_callbacks(trainer, counts, first, net, data):
    trainer().fit(net(configure_callbacks=lambda: counts), data)


def after_an_evaluation(trainer, counts, first, net, data):
    first.test(net(test_step=lambda batch, _: None), data)
    assert counts.batches == 5
    first.fit(net(), data)


@pytest.mark.parametrize(
    "second_fit",
    [
        by_the_same_trainer_with_another_module,
        by_another_trainer,
        by_another_trainer_with_the_same_module,
        after_a_fit_that_failed,
        from_configure_callbacks,
        after_an_evaluation,
    ],
)
def test_a_used_callback_begins_anew_before_setup_in(second_fit, trainer, net, data):
    counts = Counts()
    first = trainer(callbacks=[counts])
    first.fit(net(), data)
    assert (counts.batches, counts.anew, counts.order) == (5, 0, ["setup"])
    second_fit(trainer, counts, first, net, data)
    assert (counts.batches, counts.anew) == (5, 1)
    assert counts.order[-2:] == ["begin_anew", "setup"]


def test_a_fit_that_continues_leaves_it_as_it_is(trainer, net, data):
    counts, module = Counts(), net()
    first = trainer(callbacks=[counts])
    first.fit(module, data)
    first.max_epochs = 2
    first.fit(module, data)
    assert (counts.batches, counts.anew) == (10, 0)


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_no_evaluation_has_it_begin_anew(stage, trainer, net, data):
    counts = Counts()
    trainer(callbacks=[counts]).fit(net(), data)
    evaluate = getattr(trainer(callbacks=[counts]), stage)
    evaluate(net(**{f"{stage.replace('validate', 'validation')}_step": lambda batch, _: None}), data)
    assert (counts.batches, counts.anew) == (5, 0)


def test_what_the_user_gave_a_new_one_stays(trainer, net, data):
    counts = Counts()
    counts.load_state_dict({"batches": 100})
    trainer(callbacks=[counts]).fit(net(), data)
    assert (counts.batches, counts.anew) == (105, 0)


def test_a_resume_begins_anew_and_loads_its_state_then(trainer, net, data, tmp_path):
    counts, path = Counts(), tmp_path / "file.ckpt"
    first = trainer(callbacks=[counts])
    first.fit(net(), data)
    first.save_checkpoint(path)
    first.fit(net(), data)  # another run
    trainer(callbacks=[counts], max_epochs=2).fit(net(), data, ckpt_path=path)
    assert counts.batches == 10
    assert counts.order[-3:] == ["begin_anew", "setup", "load_state_dict"]


def test_its_error_ends_the_fit_as_that_of_a_hook_does(trainer, net, data):
    class Fails(Counts):
        def begin_anew(self, trainer):
            raise ZeroDivisionError

        def on_exception(self, trainer, pl_module, exception):
            self.heard = exception

    fails = Fails()
    trainer(callbacks=[fails]).fit(net(), data)
    with pytest.raises(ZeroDivisionError) as caught:
        trainer(callbacks=[fails]).fit(net(), data)
    assert fails.heard is caught.value


class Runs(Logger):
    """Counts the runs that it has begun."""

    anew = 0

    def begin_anew(self):
        self.anew += 1


def validates(trainer, logger, net, data, path):
    trainer(logger=logger).validate(net(validation_step=lambda batch, _: None), data, verbose=False)


def validates_its_file(trainer, logger, net, data, path):
    module = net(validation_step=lambda batch, _: None)
    trainer(logger=logger).validate(module, data, verbose=False, ckpt_path=path)


def fits(trainer, logger, net, data, path):
    trainer(logger=logger, max_epochs=1).fit(net(), data)


@pytest.mark.parametrize("first", [validates, validates_its_file, fits])
def test_a_logger_keeps_its_run_while_a_fit_goes_on_whatever_is_done_in_its_middle(trainer, net, data, tmp_path, first):
    class Within(Callback):
        def on_train_epoch_end(self, outer, pl_module):
            if outer.current_epoch == 0:
                outer.save_checkpoint(path := tmp_path / "now.ckpt")
                first(trainer, logger, net, data, path)
                fits(trainer, logger, net, data, path)
                anew.append(logger.anew)

    logger, anew = Runs(), []
    trainer(logger=logger, callbacks=[Within()], max_epochs=2).fit(net(), data)
    assert anew == [0]
    fits(trainer, logger, net, data, None)
    assert logger.anew == 1
