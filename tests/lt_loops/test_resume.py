"""A run that continues from a checkpoint equals one that was never stopped, wherever the checkpoint was asked for."""

import os
import signal
from contextlib import nullcontext
from importlib.util import find_spec
from pathlib import Path
from typing import ClassVar

import pytest
import torch
from torch.optim import lr_scheduler
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, random_split

from lt_core import Callback, DataSource, Logger, plugins
from lt_core.errors import LtWarning
from lt_core.strategy import Shard, Strategy


class Saves(Callback):
    """Asks for a checkpoint at every place where callbacks may."""

    def __init__(self, folder, at_once=False):
        self.folder, self.at_once, self.paths = folder, at_once, []

    def save(self, trainer, word):
        if trainer.sanity_checking:
            return
        path = self.folder / f"{len(self.paths):02d} {word} {trainer.current_epoch}-{trainer.global_step}.ckpt"
        self.paths.append(path)
        trainer.save_checkpoint(path) if self.at_once else trainer.request_save(path, owner=self)

    def on_train_start(self, trainer, pl_module):
        self.save(trainer, "train start")

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if not self.at_once:
            self.save(trainer, "batch")

    def on_validation_end(self, trainer, pl_module):
        self.save(trainer, "validation")

    def on_train_epoch_end(self, trainer, pl_module):
        self.save(trainer, "epoch")


class Draws(IterableDataset):
    """Samples without a length, that draw from the global generator as they are read."""

    def __iter__(self):
        for i in range(18):
            yield torch.rand(8), torch.tensor(i % 3)


@pytest.fixture
def kinds(net):
    class Logged(net):
        """Adam, dropout, a scheduler by steps, epoch means, and a validation that draws."""

        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.log("loss", loss, on_step=True, on_epoch=True)
            return loss

        def validation_step(self, batch, batch_idx):
            torch.rand(2)
            self.log("val", self.loss(batch))

        def configure_optimizers(self):
            optimizer = torch.optim.Adam(self.parameters(), lr=1e-2)
            steps = torch.optim.lr_scheduler.StepLR(optimizer, 3, 0.9)
            plateau = torch.optim.lr_scheduler.ReduceLROnPlateau(optimizer, patience=0, factor=0.9)
            watching = {"scheduler": plateau, "monitor": "val", "interval": "step", "frequency": 2}
            return [optimizer], [{"scheduler": steps, "interval": "step"}, watching]

    class Clipped(Logged):
        def optimizer_step(self, epoch, batch_idx, optimizer, optimizer_closure=None):
            optimizer.step(closure=optimizer_closure)

    class Manual(Logged):
        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            optimizer, loss = self.optimizers(), self.loss(batch)
            optimizer.zero_grad()
            self.manual_backward(loss)
            optimizer.step()
            self.log("loss", loss, on_step=True, on_epoch=True)

    class Accumulating(Logged):
        """Manual optimization that steps after every third batch."""

        def __init__(self):
            super().__init__()
            self.automatic_optimization = False

        def training_step(self, batch, batch_idx):
            loss = self.loss(batch)
            self.manual_backward(loss / 3)
            if batch_idx % 3 == 2:
                self.optimizers().step()
                self.optimizers().zero_grad()
            self.log("loss", loss, on_step=True, on_epoch=True)

    return {"plain": Logged, "closure": Clipped, "manual": Manual, "accumulating": Accumulating}


@pytest.mark.parametrize(
    ("kind", "data", "settings"),
    [
        ("plain", "sized", {}),
        ("plain", "sized", {"val_check_interval": 2}),
        ("plain", "sized", {"val_check_interval": 3, "check_val_every_n_epoch": None, "limit_train_batches": 4}),
        ("plain", "sized", {"accumulate_grad_batches": 2, "gradient_clip_val": 0.1}),
        ("plain", "unsized", {}),
        ("plain", "unsized", {"accumulate_grad_batches": 2, "val_check_interval": 2}),
        ("closure", "sized", {"accumulate_grad_batches": 2}),
        ("manual", "sized", {"gradient_clip_val": 0.1}),
        ("accumulating", "sized", {}),
    ],
)
def test_a_resume_from_any_save_point_equals_not_having_stopped(
    kind, data, settings, trainer, kinds, loader, seeded, same, tmp_path, feed, recwarn
):
    if feed == "core feed" and settings and data == "sized":
        pytest.skip("the feed is not what differs")

    def train():
        return loader(18) if data == "sized" else DataLoader(Draws(), batch_size=4)

    arguments = {"max_epochs": 2, "num_sanity_val_steps": 1, **settings}
    if settings.get("check_val_every_n_epoch", 1) is None or kind in ("manual", "accumulating"):
        arguments["silence"] = ["LT321"]
    saves = Saves(tmp_path)
    whole, fit = seeded(kinds[kind]), trainer(callbacks=saves, **arguments)
    configure_leniently(whole)
    fit.fit(whole, train(), loader(6))
    after, metrics = torch.get_rng_state(), fit.callback_metrics
    assert len(saves.paths) >= 12
    for path in saves.paths:
        torch.manual_seed(99)
        again, resumed = kinds[kind](), trainer(**arguments)
        configure_leniently(again)
        resumed.fit(again, train(), loader(6), ckpt_path=path)
        same(again, whole)
        assert torch.equal(torch.get_rng_state(), after), path.name
        assert resumed.callback_metrics == metrics, path.name
        assert (resumed.global_step, resumed.current_epoch) == (fit.global_step, fit.current_epoch), path.name
        assert resumed.global_samples == fit.global_samples, path.name


@pytest.mark.skipif(find_spec("lt_strategies") is None, reason="formats come with lt-strategies")
@pytest.mark.parametrize("precision", ["64-true", "bf16-true"])
def test_weights_of_another_precision_come_back_with_all_their_digits(
    precision, trainer, kinds, loader, seeded, same, tmp_path
):
    saves = Saves(tmp_path)
    whole = seeded(kinds["plain"])
    arguments = {"max_epochs": 2, "precision": precision, "silence": ["LT321", "LT322"]}
    configure_leniently(whole)
    trainer(callbacks=saves, **arguments).fit(whole, loader(18), loader(6))
    for path in saves.paths:
        again = kinds["plain"]()
        configure_leniently(again)
        trainer(**arguments).fit(again, loader(18), loader(6), ckpt_path=path)
        same(again, whole)


def configure_leniently(module):
    """Let the scheduler that watches a metric wait for the first validation."""
    made = module.configure_optimizers

    def configure():
        optimizers, schedulers = made()
        schedulers[1]["strict"] = False
        return optimizers, schedulers

    module.configure_optimizers = configure


def test_a_checkpoint_that_a_hook_writes_at_once_resumes_at_the_end_of_an_epoch(
    trainer, net, loader, seeded, same, tmp_path, feed
):
    class Validated(net):
        def validation_step(self, batch, batch_idx):
            self.log("val", self.loss(batch))

    saves = Saves(tmp_path, at_once=True)
    whole, fit = seeded(Validated), trainer(callbacks=saves, max_epochs=2)
    fit.fit(whole, loader(18), loader(6))
    for path in (p for p in saves.paths if "start" not in p.name):
        again, resumed = Validated(), trainer(max_epochs=2)
        resumed.fit(again, loader(18), loader(6), ckpt_path=path)
        assert (resumed.current_epoch, resumed.global_step) == (2, 10)
        assert resumed.global_samples == fit.global_samples, path.name
        if "epoch" in path.name:  # one inside a validation repeats that, with its draws
            same(again, whole)


class SavesWhatFailed(Callback):
    def __init__(self, path):
        self.path = path

    def on_exception(self, trainer, pl_module, exception):
        trainer.save_checkpoint(self.path)


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("where", ["reading", "transfer", "step", "hook", "next reading"])
def test_no_batch_is_lost_or_done_twice_after_an_error_in_it(where, window, trainer, net, tmp_path, feed):
    class Numbers(IterableDataset):
        def __init__(self, bad):
            self.bad = bad

        def __iter__(self):
            for number in range(6):
                if number == self.bad:
                    raise ArithmeticError("reading")
                yield torch.rand(8), torch.tensor(number % 3), number

    class Fails(net):
        def __init__(self, where):
            super().__init__()
            self.where, self.done = where, []

        def loss(self, batch):
            return super().loss(batch[:2])

        def on_after_batch_transfer(self, batch, dataloader_idx):
            self.fail("transfer", batch)
            return batch

        def training_step(self, batch, batch_idx):
            self.fail("step", batch)
            return super().training_step(batch, batch_idx)

        def on_train_batch_end(self, outputs, batch, batch_idx):
            self.done += batch[2].tolist()
            self.fail("hook", batch)

        def fail(self, where, batch):
            if self.where == where and self.current_epoch == 1 and 3 in batch[2]:
                raise ArithmeticError(where)

    bad = {"reading": 3, "next reading": 4}.get(where)
    silence = ["LT445"] if find_spec("lt_data") is not None else []
    arguments = {"max_epochs": 2, "accumulate_grad_batches": window, "silence": silence}
    path = tmp_path / "failed.ckpt"
    first, data = Fails(where), Numbers(None)

    class SpoilsData(Callback):
        def on_train_epoch_start(self, trainer, pl_module):
            data.bad = bad if trainer.current_epoch else None

    with pytest.raises(ArithmeticError):
        trainer(callbacks=[SpoilsData(), SavesWhatFailed(path)], **arguments).fit(first, DataLoader(data, batch_size=2))
    second, resumed = Fails(""), trainer(**arguments)
    resumed.fit(second, DataLoader(Numbers(None), batch_size=2), ckpt_path=path)
    assert first.done + second.done == [*range(6), *range(6)]
    assert (resumed.current_epoch, resumed.global_step) == (2, 6 // window if window == 1 else 4)


def test_gradients_that_a_step_has_used_are_not_saved(trainer, kinds, loader, tmp_path, seeded):
    saves, module = Saves(tmp_path), seeded(kinds["accumulating"])
    configure_leniently(module)
    trainer(callbacks=saves, silence=["LT321", "LT334"]).fit(module, loader(18))
    saved = {path.stem: torch.load(path, weights_only=True)["lt"]["ranks"][0]["gradients"] for path in saves.paths}
    assert [bool(gradients) for name, gradients in saved.items() if "batch" in name] == [True, True, False, True, True]


def test_a_checkpoint_written_after_the_fit_continues_it(trainer, net, loader, seeded, same, tmp_path, feed):
    whole = seeded(net)
    trainer(max_epochs=2).fit(whole, loader())
    part, fit = seeded(net), trainer(max_epochs=2, max_steps=30)
    fit.fit(part, loader())
    fit.save_checkpoint(tmp_path / "after.ckpt")
    again = net()
    trainer(max_epochs=2).fit(again, loader(), ckpt_path=tmp_path / "after.ckpt")
    same(again, whole)


def test_a_saved_file_is_complete_when_its_owner_is_told(trainer, net, loader, tmp_path):
    seen = []

    class Tells(Saves):
        def on_saved(self, path):
            seen.append(Path(path).name)

    saves = Tells(tmp_path)
    trainer(callbacks=saves, limit_train_batches=2).fit(net(), loader())
    assert seen == [path.name for path in saves.paths]
    assert all(path.exists() for path in saves.paths)


@pytest.mark.parametrize("every", [1, 2])
def test_loaders_of_an_epoch_are_those_of_the_resumed_epoch(every, trainer, net, tmp_path, feed):
    class OfEpochs(net):
        def __init__(self):
            super().__init__()
            self.seen = []

        def train_dataloader(self):
            made_in = float(self.trainer.current_epoch)
            return [(torch.full((2, 8), made_in), torch.tensor([0, 1]))] * 4

        def training_step(self, batch, batch_idx):
            self.seen.append((self.current_epoch, batch_idx, batch[0][0, 0].item()))
            return self.loss(batch)

    settings = {"max_epochs": 5, "reload_dataloaders_every_n_epochs": every}
    whole, saves = OfEpochs(), Saves(tmp_path)
    trainer(callbacks=saves, **settings).fit(whole)
    for path in (path for path in saves.paths if "2-" in path.name or "3-" in path.name):
        again = OfEpochs()
        trainer(**settings).fit(again, ckpt_path=path)
        assert again.seen == whole.seen[len(whole.seen) - len(again.seen) :], path.name
        assert again.seen, path.name


@pytest.mark.parametrize("every", [0, 1])
def test_loaders_that_draw_as_they_are_made_are_made_the_same(every, trainer, net, loader, same, tmp_path, feed):
    class Splits(net):
        def split(self):
            return random_split(loader(24).dataset, [16, 8])

        def train_dataloader(self):
            return DataLoader(self.split()[0], batch_size=4, shuffle=True)

        def val_dataloader(self):
            return DataLoader(self.split()[1], batch_size=4)

        def validation_step(self, batch, batch_idx):
            self.log("val", self.loss(batch))

    def fit(path=None, **arguments):
        torch.manual_seed(3)
        module, run = Splits(), trainer(max_epochs=3, reload_dataloaders_every_n_epochs=every, **arguments)
        run.fit(module, ckpt_path=path)
        return module, run

    saves = Saves(tmp_path)
    whole, uninterrupted = fit(callbacks=saves)
    for path in saves.paths:
        again, resumed = fit(path, silence=["LT322"])
        same(again, whole)
        assert resumed.callback_metrics == uninterrupted.callback_metrics, path.name


@pytest.mark.parametrize("every", [0, 1, 2])
@pytest.mark.parametrize("source", ["an argument", "kept by the module", "made anew with one generator"])
def test_a_loaders_own_generator_goes_on_also_where_loaders_are_asked_for_again(source, every, trainer, net, tmp_path):
    if plugins.find("data", "feed") is None:
        pytest.skip("lt-data is not installed")

    class Own(net):
        def __init__(self):
            super().__init__()
            self.seen, self.generator = [], torch.Generator().manual_seed(4)
            self.kept = self.new_loader()

        def new_loader(self):
            data = TensorDataset(torch.arange(12.0).repeat(8, 1).T, torch.arange(12) % 3)
            return DataLoader(data, batch_size=4, shuffle=True, generator=self.generator)

        def train_dataloader(self):
            return self.kept if source == "kept by the module" else self.new_loader()

        def training_step(self, batch, batch_idx):
            self.seen.append((self.current_epoch, batch[0][:, 0].tolist()))
            return self.loss(batch)

        def validation_step(self, batch, batch_idx):
            pass

    def fit(path=None):
        module, saves = Own(), Saves(tmp_path / ("again" if path else "whole"))
        run = trainer(max_epochs=4, callbacks=saves, reload_dataloaders_every_n_epochs=every, silence=["LT322"])
        run.fit(module, module.kept if source == "an argument" else None, [module.kept.dataset[:4]], ckpt_path=path)
        return module.seen, saves.paths

    seen, paths = fit()
    for path in [*paths, *fit(next(path for path in paths if "epoch 0" in path.name))[1]]:
        again, _ = fit(path)
        assert again == seen[len(seen) - len(again) :], path.name


def test_evaluation_rows_go_on_at_their_place_on_the_x_axis(trainer, net, loader, tmp_path):
    class Rows(Logger):
        def __init__(self):
            self.steps = []

        def log_metrics(self, metrics, step=None):
            self.steps += [step] * ("val" in metrics)

    class Validated(net):
        def validation_step(self, batch, batch_idx):
            self.log("val", self.loss(batch), on_step=True, on_epoch=False)

    rows, first, second = Rows(), Rows(), Rows()
    trainer(max_epochs=3, logger=rows, num_sanity_val_steps=0).fit(Validated(), loader(8), loader(8))
    fit = trainer(max_epochs=2, logger=first, num_sanity_val_steps=0)
    fit.fit(Validated(), loader(8), loader(8))
    fit.save_checkpoint(tmp_path / "two.ckpt")
    trainer(max_epochs=3, logger=second).fit(Validated(), loader(8), loader(8), ckpt_path=tmp_path / "two.ckpt")
    assert first.steps + second.steps == rows.steps == [0, 1, 2, 3, 4, 5]
    third = Rows()
    fit.max_epochs, fit.logger = 3, third
    fit.fit(fit.lightning_module, loader(8), loader(8))
    assert third.steps == [4, 5]


@pytest.mark.parametrize("looks_ahead", [False, True])
def test_the_datamodules_state_is_back_before_its_loaders_are_made(looks_ahead, trainer, net, tmp_path, feed):
    class Net(net):
        def configure_optimizers(self):
            if looks_ahead:
                assert self.trainer.estimated_stepping_batches
            return super().configure_optimizers()

        def test_step(self, batch, batch_idx):
            self.log("file", batch[0].mean())

    class Files(DataSource):
        def __init__(self):
            self.file, self.calls = 0, []

        def state_dict(self):
            return {"file": self.file}

        def load_state_dict(self, state_dict):
            self.file = state_dict["file"]
            self.calls.append("state")

        def setup(self, stage):
            self.calls.append("setup")

        def train_dataloader(self):
            self.calls.append(f"file {self.file}")
            return [(torch.full((2, 8), float(self.file)), torch.tensor([0, 1]))] * 2

        test_dataloader = train_dataloader

    first, second, last = Files(), Files(), Files()
    first.file = 5
    fit = trainer()
    fit.fit(Net(), datamodule=first)
    fit.save_checkpoint(tmp_path / "files.ckpt")
    trainer(max_epochs=2).fit(Net(), datamodule=second, ckpt_path=tmp_path / "files.ckpt")
    assert second.calls == ["setup", "state", "file 5"]
    [values] = trainer().test(Net(), datamodule=Files(), ckpt_path=tmp_path / "files.ckpt")
    assert values == {"file": 5.0}
    if find_spec("lt_compat") is None:
        return  # files of Lightning's are read by it
    tree = torch.load(tmp_path / "files.ckpt", weights_only=True)
    del tree["lt"]  # as in a file of Lightning's
    torch.save(tree, tmp_path / "files.ckpt")
    trainer(max_epochs=2).fit(Net(), datamodule=last, ckpt_path=tmp_path / "files.ckpt")
    assert last.calls == second.calls


def test_a_validation_that_a_signal_cuts_short_leaves_no_trace(trainer, kinds, loader, seeded, same, tmp_path):
    path = tmp_path / "interrupted.ckpt"

    class Rows(Logger):
        def __init__(self):
            self.rows = []

        def log_metrics(self, metrics, step=None):
            self.rows.append((step, dict(metrics)))

    class SavesWhenInterrupted(Callback):
        def on_interrupt(self, trainer, pl_module):
            trainer.request_save(path, owner=self)

    class Interrupted(kinds["plain"]):
        at = None

        def validation_step(self, batch, batch_idx):
            super().validation_step(batch, batch_idx)
            if (self.global_step, batch_idx) == self.at:
                os.kill(os.getpid(), signal.SIGTERM)

    def fit(module, **more):
        rows = Rows()
        arguments = {"max_epochs": 2, "val_check_interval": 2, "silence": ["LT321"], "log_every_n_steps": 1}
        configure_leniently(module)
        made = trainer(callbacks=SavesWhenInterrupted(), logger=rows, on_signal="return", **arguments)
        made.fit(module, loader(18), loader(6), **more)
        return made, rows.rows

    whole = seeded(Interrupted)
    fitted, expected = fit(whole)
    cut = seeded(Interrupted)
    cut.at = (7, 0)
    stopped, first = fit(cut)
    assert stopped.interrupted
    again = Interrupted()
    resumed, second = fit(again, ckpt_path=path)
    same(again, whole)
    assert first + second == expected
    assert resumed.callback_metrics == fitted.callback_metrics


def test_rows_logged_before_a_checkpoint_that_is_written_at_once_stay(trainer, kinds, loader, tmp_path):
    class Buffers(Logger):
        """Writes when it is told to, and cuts off what came after the checkpoint that a run resumes from."""

        written: ClassVar[list[int]] = []

        def __init__(self):
            self.waiting, self.place = [], None

        def log_metrics(self, metrics, step=None):
            self.waiting.append(step)

        def save(self):
            if self.place is not None:
                del self.written[self.place :]
                self.place = None
            self.written += self.waiting
            self.waiting.clear()

        def state_dict(self):
            return {"place": len(self.written)}

        def load_state_dict(self, state):
            self.place = state["place"]

    class SavesAtOnce(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            if trainer.global_step == 3:
                trainer.save_checkpoint(tmp_path / "three.ckpt")

    arguments = {"log_every_n_steps": 1, "limit_val_batches": 0, "silence": ["LT321"]}
    for path, callbacks in ((None, SavesAtOnce()), (tmp_path / "three.ckpt", None)):
        module = kinds["plain"]()
        configure_leniently(module)
        trainer(callbacks=callbacks, logger=Buffers(), **arguments).fit(module, loader(18), ckpt_path=path)
    # the row of the third step comes after the hook that saved; the epoch has a row of its own
    assert sorted(Buffers.written) == [0, 1, 3, 4, 4]


class OneOfTwo(Strategy):
    """Reads the first of two shards, as a rank of two does."""

    name = "one of two"

    @property
    def data_shard(self):
        return Shard(0, 2)


@pytest.mark.parametrize(("size", "more"), [(2, {}), (2, {"limit_train_batches": 0.5}), (6, {})])
def test_a_rank_that_goes_on_with_other_batches_stands_where_their_epoch_has_the_rest(
    size, more, trainer, net, tmp_path
):
    pytest.importorskip("lt_data", reason="it reads shards")

    class Noted(net):
        def training_step(self, batch, batch_idx):
            samples.extend(batch[0][:, 0].tolist())
            ends.append(self.trainer.is_last_batch)
            return self.loss(batch)

        def validation_step(self, batch, batch_idx):
            validated.append((self.trainer.current_epoch, self.trainer.batch_idx))

    def fit(path=None, callbacks=(), size=size, **more):
        data = TensorDataset(torch.arange(48.0).reshape(48, 1).expand(48, 8), torch.zeros(48, dtype=torch.int64))
        made = trainer(
            strategy=OneOfTwo(),
            max_epochs=1,
            val_check_interval=0.5,
            num_sanity_val_steps=0,
            callbacks=callbacks,
            **more,
        )
        made.fit(Noted(), DataLoader(data, batch_size=size), DataLoader(data, batch_size=48), ckpt_path=path)
        return made

    samples, ends, validated = [], [], []
    saves = Saves(tmp_path)
    fit(callbacks=[saves], size=4)
    half = next(path for path in saves.paths if "validation 0-3" in path.name)
    samples[:], ends[:], validated[:] = [], [], []
    made = fit(half, **more)
    if not more:
        assert (samples[0], len(samples)) == (24, 12)
        assert ends == [*[False] * (12 // size - 1), True]
        assert validated == [(0, 24 // size)]
    assert made.total_batches == (24 // size if not more else 12 // size)
    assert made.global_samples == (48 if not more else 24)


def test_the_hooks_of_an_epochs_start_are_called_once_where_a_file_was_asked_for_in_them(
    trainer, net, loader, tmp_path
):
    class Begins(net):
        def on_train_epoch_start(self):
            begun.append(self.current_epoch)
            self.log("begun", 1.0, reduce_fx="sum")
            self.trainer.request_save(tmp_path / f"{self.current_epoch}.ckpt")

    begun = []
    trainer(max_epochs=2).fit(Begins(), loader(8))
    assert begun == [0, 1]
    resumed = trainer(max_epochs=3)
    resumed.fit(Begins(), loader(8), ckpt_path=tmp_path / "1.ckpt")
    assert begun == [0, 1, 2]
    resumed = trainer(max_epochs=1)
    resumed.fit(Begins(), loader(8), ckpt_path=tmp_path / "0.ckpt")
    assert resumed.callback_metrics["begun"] == 1


def linear_then_cosine(optimizer, length):
    linear = lr_scheduler.LinearLR(optimizer, 0.1, total_iters=2)
    return lr_scheduler.SequentialLR(optimizer, [linear, lr_scheduler.CosineAnnealingLR(optimizer, length)], [2])


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ([lambda o: lr_scheduler.CosineAnnealingLR(o, 3)], [lambda o: lr_scheduler.CosineAnnealingLR(o, 9)],
         "T_max of CosineAnnealingLR is 3 as in the file, and not 9"),
        ([lambda o: lr_scheduler.OneCycleLR(o, 1.0, 50)], [lambda o: lr_scheduler.OneCycleLR(o, 1.0, 75)],
         "total_steps of OneCycleLR is 50 as in the file, and not 75"),
        ([lambda o: linear_then_cosine(o, 4)], [lambda o: linear_then_cosine(o, 8)],
         "T_max of CosineAnnealingLR 1 of SequentialLR is 4 as in the file, and not 8"),
        ([lambda o: lr_scheduler.MultiStepLR(o, [2, 4], 0.1)], [lambda o: lr_scheduler.MultiStepLR(o, [3], 0.2)],
         "milestones of MultiStepLR is .*; gamma of MultiStepLR is 0.1 as in the file, and not 0.2"),
        ([lambda o: lr_scheduler.StepLR(o, 4)], [], "StepLR then, none now"),
        ([], [lambda o: lr_scheduler.StepLR(o, 4)], "none then, StepLR now"),
        ([lambda o: lr_scheduler.StepLR(o, 4)], [lambda o: lr_scheduler.ExponentialLR(o, 0.5)],
         "StepLR then, ExponentialLR now"),
        ([lambda o: lr_scheduler.StepLR(o, 4)], [lambda o: lr_scheduler.StepLR(o, 4)], ""),
        ([lambda o: linear_then_cosine(o, 4)], [lambda o: linear_then_cosine(o, 4)], ""),
        ([lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2)],
         [lambda o: lr_scheduler.CosineAnnealingWarmRestarts(o, 2, 2)], ""),
        ([lambda o: lr_scheduler.LambdaLR(o, lambda _: 0.5)], [lambda o: lr_scheduler.LambdaLR(o, lambda _: 1.0)], ""),
    ],
)  # fmt: skip
def test_schedulers_that_were_made_otherwise_than_the_files_are_said(before, now, said, trainer, net, loader, tmp_path):
    def fit(made, epochs, path=None):
        def optimizers(module):
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1)
            return [optimizer], [make(optimizer) for make in made]

        one = trainer(max_epochs=epochs, silence=["LT334"])
        one.fit(net(optimizers), loader(8), ckpt_path=path)
        return one

    fit(before, 2).save_checkpoint(path := tmp_path / "two.ckpt")
    with pytest.warns(LtWarning, match=rf"resumes with other schedulers: {said}.*LT695") if said else nullcontext():
        fit(now, 4, path)


OTHER_CLASSES = {
    "step": lambda o: lr_scheduler.StepLR(o, 1, 0.5),
    "plateau": lr_scheduler.ReduceLROnPlateau,
    "chained": lambda o: lr_scheduler.ChainedScheduler([lr_scheduler.ConstantLR(o), lr_scheduler.StepLR(o, 4)]),
    "cycle": lambda o: lr_scheduler.OneCycleLR(o, 0.2, 10),
    "other cycle": lambda o: lr_scheduler.CyclicLR(o, 0.01, 0.3),
    "sequence": lambda o: linear_then_cosine(o, 4),
    "warmup": lambda o: lr_scheduler.LinearLR(o, 0.1, total_iters=2),
    "lambda": lambda o: lr_scheduler.LambdaLR(o, lambda _: 0.5),
}


@pytest.mark.parametrize(
    ("before", "now"), [(one, other) for one in (None, *OTHER_CLASSES) for other in OTHER_CLASSES if one != other]
)
def test_a_scheduler_of_another_class_than_the_files_begins_anew(before, now, trainer, net, loader, tmp_path):
    def fit(kind, epochs, path=None):
        class Net(net):
            def training_step(self, batch, batch_idx):
                self.log("loss", loss := super().training_step(batch, batch_idx))
                return loss

        def optimizers(module):
            optimizer = torch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
            made = [{"scheduler": OTHER_CLASSES[kind](optimizer), "monitor": "loss"}] if kind else []
            return [optimizer], made

        one = trainer(max_epochs=epochs, silence=["LT334"])
        one.fit(Net(optimizers), loader(8), ckpt_path=path)
        return one

    fit(before, 2).save_checkpoint(path := tmp_path / "two.ckpt")
    with pytest.warns(LtWarning, match=r"begins anew.*LT695"):
        resumed = fit(now, 4, path)
    rates = [one.optimizers[0].param_groups[0]["lr"] for one in (resumed, fit(now, 2))]
    assert rates[0] == rates[1]


def test_an_error_while_a_file_is_restored_names_it(trainer, net, loader, tmp_path):
    class Counts(Callback):
        def state_dict(self):
            return {"count": 1}

        def load_state_dict(self, state_dict):
            self.count = state_dict["counts"]

    first = trainer(max_steps=1, callbacks=Counts())
    first.fit(net(), loader(8))
    first.save_checkpoint(tmp_path / "one.ckpt")
    with pytest.raises(KeyError, match="counts") as caught:
        trainer(max_steps=2, callbacks=Counts()).fit(net(), loader(8), ckpt_path=tmp_path / "one.ckpt")
    assert any("one.ckpt" in note for note in caught.value.__notes__)
