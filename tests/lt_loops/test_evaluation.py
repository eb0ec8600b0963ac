"""``validate``, ``test``, ``predict`` and ``predict_iter``."""

import signal
import sys
import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import ClassVar

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core import (
    Accelerator,
    Callback,
    CheckpointError,
    ConfigError,
    DataSource,
    HookError,
    LightningModule,
    Logger,
    Strategy,
)
from lt_core.errors import LtWarning


class Doubles(LightningModule):
    """Doubles its input by a weight; notes modes and gradients in its steps."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1, bias=False)
        self.drop = nn.Dropout(0.9)
        nn.init.constant_(self.layer.weight, 2.0)
        self.seen = []

    def forward(self, x):
        self.seen.append((self.training, torch.is_grad_enabled(), torch.is_inference_mode_enabled()))
        return self.drop(self.layer(x))

    def training_step(self, batch, batch_idx):
        return self(batch).sum() * 0.0

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("mean", self(batch).mean())

    def test_step(self, batch, batch_idx, dataloader_idx=0):
        self.log("mean", self(batch).mean())

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def numbers(count=5, start=0, batch_size=2):
    return DataLoader([torch.tensor([float(i)]) for i in range(start, start + count)], batch_size=batch_size)


def flat(outputs):
    return torch.cat(outputs).flatten().tolist()


# ---- predict ---------------------------------------------------------------------------------------------------------


def test_predictions_are_a_list_in_the_order_of_the_data(trainer, feed):
    assert flat(trainer().predict(Doubles(), numbers())) == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_several_loaders_give_a_list_for_each(trainer):
    found = trainer().predict(Doubles(), [numbers(3), numbers(2, start=10)])
    assert [flat(outputs) for outputs in found] == [[0.0, 2.0, 4.0], [20.0, 22.0]]


def test_limits_count_for_each_loader(trainer):
    found = trainer(limit_predict_batches=1).predict(Doubles(), [numbers(3), numbers(3, start=10)])
    assert [flat(outputs) for outputs in found] == [[0.0, 2.0], [20.0, 22.0]]


def test_predictions_of_a_device_are_kept_on_the_cpu_which_has_room_for_all_of_them(trainer):
    class Scores:
        """What a step on a device returns."""

        device = "meta"

        def to(self, device):
            moved = Scores()
            moved.device = str(device)
            return moved

    class Meta(Accelerator):
        device_type = "meta"

        def torch_device(self, index):
            return torch.device("meta")

    class Scoring(LightningModule):
        def predict_step(self, batch, batch_idx):
            assert batch.is_meta
            return {"scores": [Scores()], "index": batch_idx}

    found = trainer(accelerator=Meta()).predict(Scoring(), DataLoader(torch.zeros(4, 2), batch_size=2))
    assert [(output["scores"][0].device, output["index"]) for output in found] == [("cpu", 0), ("cpu", 1)]


def test_return_predictions_false_keeps_nothing_and_callbacks_get_them(trainer):
    seen = []

    class Writes(Callback):
        def on_predict_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx=0):
            seen.append((dataloader_idx, batch_idx, outputs.flatten().tolist()))

    loaders = [numbers(3), numbers(1, start=10)]
    assert trainer(callbacks=Writes()).predict(Doubles(), loaders, return_predictions=False) is None
    assert seen == [(0, 0, [0.0, 2.0]), (0, 1, [4.0]), (1, 0, [20.0])]


def test_an_own_predict_step_gets_batch_index_and_loader_index(trainer):
    class Own(Doubles):
        def predict_step(self, batch, batch_idx, dataloader_idx=0):
            return batch_idx, dataloader_idx

    assert trainer().predict(Own(), [numbers(3), numbers(1)]) == [[(0, 0), (1, 0)], [(0, 1)]]


def test_prediction_runs_in_eval_mode_without_gradients_and_gives_the_mode_back(trainer):
    module = Doubles()
    trainer().predict(module, numbers())
    assert set(module.seen) == {(False, False, True)}
    assert module.training
    assert module.drop.training
    module.seen.clear()
    trainer(inference_mode=False).predict(module, numbers())
    assert set(module.seen) == {(False, False, False)}


def test_predict_iter_yields_batch_by_batch_with_gradients_on_in_between(trainer):
    module, read = Doubles(), []

    class Counted:
        def __iter__(self):
            for batch in numbers(6):
                read.append(len(read))
                yield batch

    run = trainer()
    for index, output in enumerate(run.predict_iter(module, Counted())):
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()
        assert len(read) == index + 1
        assert output.flatten().tolist() == [4.0 * index, 4.0 * index + 2.0]
        assert not output.requires_grad
    assert module.training
    assert set(module.seen) == {(False, False, True)}


def test_predict_iter_may_be_left_early(trainer):
    seen = []

    class Sees(Callback):
        def on_exception(self, trainer, pl_module, exception):
            seen.append(exception)

        def teardown(self, trainer, pl_module, stage):
            seen.append(stage)

    module, run = Doubles(), trainer(callbacks=Sees())
    for _ in run.predict_iter(module, numbers()):
        break
    assert seen == ["predict"]
    assert module.training
    assert flat(run.predict(module, numbers())) == [0.0, 2.0, 4.0, 6.0, 8.0]


def test_a_signal_while_predict_iter_goes_on_ends_the_script_and_not_only_the_outputs(trainer, monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    run = trainer()
    outputs = run.predict_iter(Doubles(), numbers())
    next(outputs)
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit) as ended:
        next(outputs)
    assert ended.value.code == 143
    assert run.interrupted


def test_a_library_that_replaces_sys_exit_hears_of_the_status(trainer, monkeypatch):
    monkeypatch.delenv("PYTEST_CURRENT_TEST")
    heard = []
    exits = sys.exit
    monkeypatch.setattr(sys, "exit", lambda code: [heard.append(code), exits(code)])  # as W&B does
    run = trainer()
    outputs = run.predict_iter(Doubles(), numbers())
    next(outputs)
    signal.raise_signal(signal.SIGTERM)
    with pytest.raises(SystemExit):
        next(outputs)
    assert heard == [143]


def test_the_default_prediction_calls_the_module(trainer):
    class Plain(LightningModule):
        def forward(self, batch):
            return batch + 1

    assert flat(trainer().predict(Plain(), numbers(3))) == [1.0, 2.0, 3.0]


# ---- validate and test -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("stage", ["validate", "test"])
def test_results_are_a_dict_for_each_loader_and_a_printed_table(stage, trainer, capsys):
    module = Doubles()
    results = getattr(trainer(), stage)(module, numbers())
    assert results == [{"mean": 4.0}]
    assert "mean" in capsys.readouterr().out
    assert set(module.seen) == {(False, False, True)}
    quiet = getattr(trainer(), stage)(module, [numbers(), numbers(2, start=10)], verbose=False)
    assert quiet == [{"mean/dataloader_idx_0": 4.0}, {"mean/dataloader_idx_1": 21.0}]
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("stage", ["validate", "test"])
def test_after_a_fit_no_module_means_that_of_the_fit(stage, trainer, capsys):
    class Data(DataSource):
        def train_dataloader(self):
            return numbers()

        test_dataloader = val_dataloader = predict_dataloader = train_dataloader

    run, module = trainer(), Doubles()
    run.fit(module, datamodule=Data())
    module.seen.clear()
    assert getattr(run, stage)() == [{"mean": 4.0}]
    assert flat(run.predict()) == [0.0, 2.0, 4.0, 6.0, 8.0]
    assert flat(run.predict(dataloaders=numbers(1))) == [0.0]
    assert run.global_step == 3


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_without_a_module_and_without_a_fit_it_is_an_error(stage, trainer):
    with pytest.raises(TypeError, match=r"needs a module.*LT131"):
        getattr(trainer(), stage)()


@pytest.mark.parametrize(("stage", "method"), [("validate", "val"), ("test", "test"), ("predict", "predict")])
def test_without_data_it_is_an_error_that_names_the_method(stage, method, trainer):
    with pytest.raises(ConfigError, match=rf"{stage} has no data.*{method}_dataloader.*LT403"):
        getattr(trainer(), stage)(Doubles())


@pytest.mark.parametrize("stage", ["validate", "test"])
def test_without_its_step_an_evaluation_is_an_error(stage, trainer):
    class Bare(LightningModule):
        pass

    step = {"validate": "validation_step", "test": "test_step"}[stage]
    with pytest.raises(ConfigError, match=rf"{stage} needs Bare.{step}"):
        getattr(trainer(), stage)(Bare(), numbers())


def test_hooks_may_leave_away_the_loaders_index_where_there_is_one_loader(trainer):
    seen = []

    class Short(Doubles):
        def on_validation_batch_start(self, batch, batch_idx):
            seen.append(batch_idx)

        def on_validation_batch_end(self, outputs, batch, batch_idx):
            seen.append(outputs)

        def validation_step(self, batch):
            return len(batch)

    trainer().validate(Short(), numbers(3))
    assert seen == [0, 2, 1, 1]


def test_a_datamodule_may_stand_in_the_place_of_the_loaders(trainer):
    class Data(DataSource):
        def train_dataloader(self):
            return numbers()

        predict_dataloader = train_dataloader

    fit = trainer(limit_val_batches=0)
    fit.fit(Doubles(), Data())
    assert fit.global_step == 3
    assert len(trainer().predict(Doubles(), Data())) == 3


def test_the_transfer_hooks_get_each_batch_with_the_index_of_its_loader(trainer):
    seen = []

    class Moves(Doubles):
        def on_before_batch_transfer(self, batch, dataloader_idx):
            seen.append(("before", dataloader_idx))
            return batch + 1

        def transfer_batch_to_device(self, batch, device, dataloader_idx):
            seen.append((device.type, dataloader_idx))
            return batch.to(device)

        def on_after_batch_transfer(self, batch, dataloader_idx):
            seen.append(("after", dataloader_idx))
            return batch * 10

    found = trainer().predict(Moves(), [numbers(1), numbers(1)])
    assert [flat(outputs) for outputs in found] == [[20.0], [20.0]]
    assert seen == [(name, index) for index in (0, 1) for name in ("before", "cpu", "after")]


# ---- what a module keeps from an evaluation ----


class Caches(Doubles):
    """Makes a table at its first use and scales by it; notes in ``bank``, in place, what it saw last."""

    table = bank = None

    def forward(self, x):
        if self.table is None:
            self.table, self.bank = torch.full((1,), 3.0), torch.zeros(1)
        self.bank.copy_(x.detach().max())
        return self.layer(x) * self.table

    def training_step(self, batch, batch_idx):
        return (self(batch) - self.bank).square().mean()


@pytest.mark.parametrize("first", ["sanity check", "validation"])
def test_what_a_module_makes_in_a_validation_of_fit_can_be_trained_with(first, trainer, same):
    class Forgets(Callback):
        def on_validation_start(self, trainer, pl_module):
            pl_module.table = None

    module = Caches()
    run = trainer(
        num_sanity_val_steps=1 if first == "sanity check" else 0,
        val_check_interval=1,
        callbacks=[Forgets()] if first == "validation" else [],
    )
    run.fit(module, numbers(), numbers())
    plain = Caches()
    optimizer = plain.configure_optimizers()
    for batch in numbers():
        optimizer.zero_grad()
        plain.training_step(batch, 0).backward()
        optimizer.step()
    same(module, plain)
    assert not module.table.is_inference()


def test_training_with_what_was_kept_from_inference_mode_says_what_to_do(trainer):
    pytest.importorskip("lt_explain", reason="it says so")
    module = Caches()
    trainer().validate(module, numbers())
    with pytest.raises(RuntimeError, match="nference") as caught:
        trainer().fit(module, numbers())
    assert "Trainer(inference_mode=False). [LT226]" in caught.value.__notes__[0]
    module.table = None
    trainer(inference_mode=False).validate(module, numbers())
    trainer().fit(module, numbers())


# ---- callbacks of the module -----------------------------------------------------------------------------------------


def test_configure_callbacks_adds_its_callbacks_and_replaces_those_of_the_same_class(trainer):
    class Named(Callback):
        def __init__(self, name):
            self.name = name

        def on_train_start(self, trainer, pl_module):
            calls.append(self.name)

    class Other(Named):
        pass

    class Brings(Doubles):
        def configure_callbacks(self):
            return [Named("module's"), Other("other")]

    calls = []
    fit = trainer(callbacks=[Named("trainer's")])
    fit.fit(Brings(), numbers())
    assert calls == ["module's", "other"]
    fit.fit(Brings(), numbers())
    assert calls == ["module's", "other"] * 2

    class BringsOne(Doubles):
        def configure_callbacks(self):
            return Other("one")

    calls.clear()
    trainer(callbacks=[Named("trainer's")]).fit(BringsOne(), numbers())
    assert calls == ["trainer's", "one"]


def test_configure_callbacks_may_not_bring_two_whose_state_has_one_key(trainer):
    class Stateful(Callback):
        def state_dict(self):
            return {"n": 1}

    class Net(LightningModule):
        def configure_callbacks(self):
            return [Stateful(), Stateful()]

    with pytest.raises(ConfigError, match="two Stateful.*same key .*Stateful.*override state_key"):
        trainer().fit(Net(), [torch.ones(1)])


def test_configure_callbacks_must_return_callbacks(trainer):
    class Wrong(Doubles):
        def configure_callbacks(self):
            return [3]

    with pytest.raises(TypeError, match=r"configure_callbacks returned 3 \(int\); expected Callback instances"):
        trainer().fit(Wrong(), numbers())


# ---- what is missing -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["training_step", "configure_optimizers"])
def test_fit_names_the_hook_that_is_missing(missing, trainer):
    kept = {"training_step": Doubles.training_step, "configure_optimizers": Doubles.configure_optimizers}
    del kept[missing]
    module = type("Half", (LightningModule,), kept)()
    with pytest.raises(ConfigError, match=rf"fit needs Half.{missing}.*LT214"):
        trainer().fit(module, numbers())


def test_predict_names_what_is_missing_where_a_module_can_neither_predict_nor_be_called(trainer):
    kept = {"training_step": Doubles.training_step, "configure_optimizers": Doubles.configure_optimizers}
    with pytest.raises(ConfigError, match=r"predict needs Half.predict_step or forward: define it.*LT214"):
        trainer().predict(type("Half", (LightningModule,), kept)(), numbers())
    calls = type("Calls", (LightningModule,), {**kept, "__call__": lambda self, batch: batch + 1})
    assert trainer().predict(calls(), [torch.ones(1, 1)]) == [torch.full((1, 1), 2.0)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((Doubles,), r"the class Doubles: pass an instance"),
        ((nn.Linear(1, 1),), r"expected a LightningModule, got a Linear"),
        ((Doubles(), 3), r"train_dataloaders: expected a DataLoader.*got 3 \(int\)"),
        ((Doubles(), DataLoader), r"got the class DataLoader. Pass an instance"),
        ((Doubles(), object()), r"got an object, which cannot be iterated"),
        ((Doubles(), None, None, 3), r"datamodule=3: expected a LightningDataModule instance, received an int"),
        ((Doubles(), [torch.ones(1, 1)], None, DataSource()), r"both loaders \(train\) and a datamodule"),
    ],
)
def test_wrong_arguments_of_fit_say_what_was_expected(arguments, message, trainer):
    with pytest.raises(TypeError, match=message):
        trainer().fit(*arguments)


def test_a_forgotten_super_init_is_a_clear_error(trainer):
    class Forgets(Doubles):
        def __init__(self):
            self.x = 1

    with pytest.raises(TypeError, match=r"Forgets.__init__ did not call super\(\).__init__\(\)"):
        trainer().fit(Forgets(), numbers())


def test_fit_without_data_is_an_error(trainer):
    with pytest.raises(ValueError, match=r"nothing to train on.*train_dataloader.*LT403"):
        trainer().fit(Doubles())


def test_a_validation_loader_without_a_step_is_told(trainer):
    class NoStep(LightningModule):
        configure_optimizers = Doubles.configure_optimizers

        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(1, 1)

        def training_step(self, batch, batch_idx):
            return self.layer(batch).sum()

    with pytest.warns(UserWarning, match=r"NoStep has no validation_step: validation is skipped.*LT215"):
        trainer().fit(NoStep(), numbers(), numbers())


@pytest.mark.parametrize("off", ["the step", "the limit", "the loader", "nothing"])
def test_a_step_is_told_of_an_empty_list_of_validation_loaders_and_of_no_argument_nothing(trainer, off, recwarn):
    warnings.simplefilter("always")

    class Half(Doubles):
        if off == "the step":
            validation_step = None

    none = None if off == "the loader" else []
    trainer(**({"limit_val_batches": 0} if off == "the limit" else {})).fit(Half(), numbers(), none)
    told = [str(found.message) for found in recwarn if "LT215" in str(found.message)]
    assert ["holds no loader" in text for text in told] == [True] * (off == "nothing")


@pytest.mark.parametrize(
    ("wrote", "meant"), [("traning_step", "training_step"), ("on_train_epoch_ends", "on_train_epoch_end")]
)
def test_a_misspelt_hook_is_told_with_the_near_name(wrote, meant, trainer):
    module = type("Misspelt", (Doubles,), {wrote: lambda self, *args: None})()
    with pytest.warns(UserWarning, match=rf"Misspelt.{wrote} is not a hook.*'{meant}'"):
        trainer().fit(module, numbers())


@pytest.mark.parametrize("folder", ["site-packages", "dist-packages", "project"])
@pytest.mark.parametrize("name", ["on_train_epoch_ends", "needs_closures"])
def test_near_misses_are_told_of_the_users_classes_and_not_of_an_installed_package_s(
    name, folder, trainer, tmp_path, monkeypatch, recwarn
):
    warnings.simplefilter("always")
    (tmp_path / folder).mkdir()
    value = "lambda self: None" if name.startswith("on_") else "True"
    (tmp_path / folder / "brought.py").write_text(f"class Brought:\n    {name} = {value}\n")
    monkeypatch.syspath_prepend(tmp_path / folder)
    monkeypatch.delitem(sys.modules, "brought", raising=False)
    trainer().fit(type("Mine", (import_module("brought").Brought, Doubles), {})(), numbers())
    told = [str(found.message) for found in recwarn if f"Mine.{name}" in str(found.message)]
    assert len(told) == (folder == "project")


@pytest.mark.parametrize(
    ("returned", "message"),
    [
        (torch.ones(2, requires_grad=True), r"loss of shape \(2,\).*loss.mean\(\)"),
        ({"los": torch.ones(1)}, r"dict with the keys \['los'\].*key 'loss'"),
        ({"loss": 3.0}, r"its 'loss' is a float"),
        ("loss", r"'loss' \(str\)"),
    ],
)
def test_a_wrong_return_value_of_training_step_says_what_was_expected(returned, message, trainer):
    class Wrong(Doubles):
        def training_step(self, batch, batch_idx):
            return returned

    with pytest.raises(ConfigError, match=message):
        trainer().fit(Wrong(), numbers())


def test_a_loss_of_one_element_needs_no_certain_shape(trainer):
    class OneElement(Doubles):
        def training_step(self, batch, batch_idx):
            return self(batch).sum().reshape(1)

    fit = trainer()
    fit.fit(OneElement(), numbers())
    assert fit.global_step == 3


def test_a_module_of_several_lightning_modules_logs_from_all(trainer):
    class Inner(Doubles):
        def forward(self, x):
            self.log("inner", x.mean())
            return super().forward(x)

    class Outer(Doubles):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def training_step(self, batch, batch_idx):
            return self.inner(batch).sum() * 0.0

    fit = trainer()
    module = Outer()
    fit.fit(module, numbers())
    assert fit.callback_metrics["inner"].item() == 4.0
    with pytest.warns(LtWarning, match="LT528"):  # outside of the run nothing is logged, and nothing fails
        module.inner(torch.ones(1, 1))


@pytest.mark.slow  # importing torch's compiler
@pytest.mark.filterwarnings("ignore:The .grad attribute:UserWarning", "ignore::DeprecationWarning")  # torch's, of torch
def test_a_compiled_module_trains_logs_and_keeps_its_keys(trainer):
    class Logs(Doubles):
        def training_step(self, batch, batch_idx):
            loss = self.layer(batch).sum() * 0.0
            self.log("loss", loss)
            return loss

    module = Logs()
    compiled = torch.compile(module, backend="eager")
    fit = trainer(limit_train_batches=2)
    fit.fit(compiled, numbers())
    assert fit.lightning_module is module
    assert list(module.state_dict()) == ["layer.weight"]
    assert fit.callback_metrics == {"loss": 0.0}
    assert fit.global_step == 2


@pytest.mark.skipif(find_spec("lt_data") is None, reason="shards come with lt-data")
@pytest.mark.parametrize("returned", [True, False])
def test_the_ranks_meet_before_predict_returns(returned, trainer, net, loader):
    class Ranks(Strategy):
        """Two ranks, of which this process is one and the other says the same."""

        said: ClassVar[list] = []
        world_size = 2

        def barrier(self, name=""):
            self.said.append(name)

        def gather_objects(self, value):
            self.said.append("gathered")
            return [value, value]

        def all_reduce(self, tensor, op="sum"):
            return tensor

    class Module(net):
        def predict_step(self, batch, batch_idx):
            return batch[1]

        def on_predict_end(self):
            Ranks.said.clear()

    trainer(strategy=Ranks()).predict(Module(), loader(8), return_predictions=returned)
    assert ("gathered" if returned else "predict_end") in Ranks.said


def test_weights_of_another_size_name_the_hyperparameters_that_differ(trainer, loader, tmp_path):
    class Wide(LightningModule):
        def __init__(self, width, name="x"):
            super().__init__()
            self.save_hyperparameters()
            self.layer = nn.Linear(8, width)

        def test_step(self, batch, batch_idx):
            pass

    run = trainer()
    run.test(Wide(3), loader(4), verbose=False)
    run.save_checkpoint(tmp_path / "wide.ckpt")
    with pytest.raises(CheckpointError, match=r"that it was made with: width=3 \(here 2\)\. \[LT662\]"):
        trainer().test(Wide(2), loader(4), ckpt_path=tmp_path / "wide.ckpt")


def test_a_test_alone_sends_the_hyperparameters_and_one_after_a_fit_does_not_again(trainer, loader):
    class Keeps(Logger):
        def __init__(self):
            self.sent = []

        def log_hyperparams(self, params):
            self.sent.append(dict(params))

        def log_metrics(self, metrics, step=None):
            pass

    class Wide(Doubles):
        def __init__(self, width=3):
            super().__init__()
            self.save_hyperparameters()

    alone, after = Keeps(), Keeps()
    trainer(logger=alone).test(Wide(), numbers(), verbose=False)
    both, net = trainer(logger=after), Wide()
    both.fit(net, numbers())
    both.test(net, numbers(), verbose=False)
    assert alone.sent == after.sent == [{"width": 3}]


def test_callbacks_have_their_state_of_the_file_before_a_stages_first_hook(trainer, tmp_path):
    class Averages(Callback):
        def __init__(self, kept=None, role=""):
            self.kept, self.role, self.seen = kept, role, []

        state_key = property(lambda self: f"Averages{self.role}")

        def state_dict(self):
            return {"kept": self.kept}

        def load_state_dict(self, state_dict):
            self.kept = state_dict["kept"]

        def note(self, trainer, pl_module):
            self.seen.append(self.kept)

        on_validation_start = on_test_start = on_predict_start = note

    path, net = tmp_path / "averages.ckpt", Doubles()
    run = trainer(callbacks=[Averages(1), Averages(2, "checkpoint"), Averages(3, "other")], enable_checkpointing=None)
    run.fit(net, numbers())
    run.save_checkpoint(path)
    mine, keeps_files = Averages(), Averages(role="checkpoint")
    again = trainer(callbacks=[mine, keeps_files], enable_checkpointing=None)
    for stage in ("validate", "test", "predict"):
        getattr(again, stage)(net, numbers(), ckpt_path=path)
        assert mine.seen == [1], stage
        mine.kept, mine.seen = None, []
    assert keeps_files.seen == [None] * 3  # which files are kept is training's


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_a_signal_ends_a_stage_by_its_last_hooks(stage, trainer):
    class Signalled(Callback):
        heard = 0

        def note(self, trainer, pl_module):
            self.heard += 1

    word, callback = {"validate": "validation"}.get(stage, stage), Signalled()
    setattr(callback, f"on_{word}_batch_end", lambda *_: signal.raise_signal(signal.SIGTERM))
    setattr(callback, f"on_{word}_epoch_end", callback.note)
    setattr(callback, f"on_{word}_end", callback.note)
    getattr(trainer(callbacks=callback, on_signal="return"), stage)(Doubles(), numbers())
    assert callback.heard == 2


# ---- what steps get, and which are there -----------------------------------------------------------------------------


class HandsOn(Doubles):
    """Wraps each step and hook of a parent that knows of no ``dataloader_idx``, or takes it where there is one."""

    def __init__(self):
        super().__init__()
        self.got = {}

    def validation_step(self, *args, **kwargs):
        self.got["step"] = len(args)

    def on_validation_batch_start(self, *args):
        self.got["start"] = len(args)

    def on_validation_batch_end(self, outputs, *args):
        self.got["end"] = len(args)

    def predict_step(self, *args):
        self.got["predict"] = len(args)
        return self(args[0])


@pytest.mark.parametrize(("loaders", "count"), [(1, 2), (2, 3)])
def test_args_get_dataloader_idx_only_where_there_are_several_loaders(trainer, loaders, count):
    model = HandsOn()
    trainer().validate(model, [numbers()] * loaders)
    trainer().predict(model, [numbers()] * loaders)
    assert model.got == {"step": count, "start": count, "end": count, "predict": count}


@pytest.mark.parametrize(("loaders", "given"), [(1, {None}), (2, {0, 1})])
def test_a_default_of_dataloader_idx_stays_where_there_is_one_loader(trainer, loaders, given):
    seen = set()

    class Asks(Doubles):
        def validation_step(self, batch, batch_idx, dataloader_idx=None):
            seen.add(dataloader_idx)

        def on_validation_batch_end(self, outputs, batch, batch_idx, dataloader_idx=None):
            seen.add(dataloader_idx)

    trainer().validate(Asks(), [numbers()] * loaders)
    assert seen == given


def without(model, place, **parts):
    """Take parts of a module away, in its class or on the instance."""
    if place == "class":
        model.__class__ = type("Without", (type(model),), parts)
    for name, value in parts.items() if place == "instance" else ():
        setattr(model, name, value)
    return model


class OwnLoaders(Doubles):
    def train_dataloader(self):
        return numbers()

    def val_dataloader(self):
        return numbers()


@pytest.mark.parametrize("place", ["class", "instance"])
@pytest.mark.parametrize("half", ["val_dataloader", "validation_step"])
def test_a_half_of_validation_that_is_none_is_a_warning_and_skips_it(trainer, place, half):
    model = without(OwnLoaders(), place, **{half: None})
    trains = trainer()
    if half == "val_dataloader":  # most modules that can validate and are given no loader mean it
        trains.fit(model)
    else:
        with pytest.warns(UserWarning, match="validation is skipped"):
            trains.fit(model)
    assert trains.num_val_batches == []
    assert trains.global_step == 3


@pytest.mark.parametrize("place", ["class", "instance"])
def test_both_halves_that_are_none_say_nothing(trainer, place):
    trainer().fit(without(OwnLoaders(), place, val_dataloader=None, validation_step=None))


@pytest.mark.parametrize("place", ["class", "instance"])
def test_a_step_that_is_none_is_not_defined(trainer, place):
    with pytest.raises(HookError, match=r"test needs .*test_step"):
        trainer().test(without(OwnLoaders(), place, test_step=None), numbers())
    with pytest.raises(HookError, match=r"predict needs .*predict_step:"):
        trainer().predict(without(OwnLoaders(), place, predict_step=None), numbers())


def test_a_trainer_shows_its_last_fit_beside_and_after_an_evaluation(trainer):
    model, seen = Doubles(), []

    class Looks(Callback):
        def on_test_start(self, trainer, pl_module):
            seen.append((trainer.optimizers, trainer.num_training_batches))

    trained = trainer(max_epochs=1, callbacks=[Looks()])
    trained.validate(model, numbers(5), verbose=False)
    assert (trained.optimizers, trained.num_training_batches, trained.num_val_batches) == ([], float("inf"), [3])
    trained.fit(model, numbers(9), numbers(3))
    optimizers = trained.optimizers
    trained.test(model, numbers(11), verbose=False)
    assert seen == [(optimizers, 5)]
    assert (trained.optimizers, trained.num_training_batches, trained.num_val_batches) == (optimizers, 5, [2])
    assert trained.num_test_batches == [6]
    trained.validate(model, numbers(5), verbose=False)
    assert (trained.optimizers, trained.num_val_batches) == (optimizers, [3])
