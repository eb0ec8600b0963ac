"""Hooks and signatures of 1.x still work, and say what to write today."""

from __future__ import annotations

import pickle
import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

from lt_compat.v1.hooks import adapted_module
from lt_core import Callback, HookError, LightningModule, LogError, LtDeprecationWarning
from lt_core.dialect import Policy
from lt_loops import Trainer
from lt_loops.setup.hooks import adapted

QUIET = {
    "accelerator": "cpu",
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
    "max_epochs": 1,
    "num_sanity_val_steps": 0,
}


def loader(batches: int = 4) -> Any:
    generator = torch.Generator().manual_seed(0)
    return DataLoader(TensorDataset(torch.randn(4 * batches, 8, generator=generator)), batch_size=4)


class Old(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.generator, self.judge = nn.Linear(8, 8), nn.Linear(8, 1)
        self.calls: list[Any] = []

    def setup(self) -> None:
        self.calls.append("setup")

    def training_step(self, batch: Any, batch_nb: int, optimizer_idx: int) -> Any:
        self.calls.append(optimizer_idx)
        return {"loss": self.loss(batch[0], optimizer_idx), "turn": optimizer_idx}

    def loss(self, x: Tensor, turn: int) -> Tensor:
        z = self.generator(x)
        return -self.judge(z).mean() if turn == 0 else self.judge(z.detach()).pow(2).mean()

    def configure_optimizers(self) -> Any:
        return [torch.optim.SGD(part.parameters(), 0.1) for part in (self.generator, self.judge)], []


def fit(module: LightningModule, **more: Any) -> Any:
    trainer = Trainer(**{**QUIET, **more})
    trainer.fit(module, loader(), more.pop("val", None))
    return trainer


def test_optimizer_idx_steps_the_optimizers_in_turn_as_the_loop_by_hand() -> None:
    old, hand = Old(), Old()
    trainer = fit(old)
    optimizers, _ = hand.configure_optimizers()
    for (x,) in loader():
        for turn, optimizer in enumerate(optimizers):
            optimizer.zero_grad()
            hand.loss(x, turn).backward()
            optimizer.step()
    assert old.calls == ["setup", *[0, 1] * 4]
    assert trainer.global_step == 4
    for mine, theirs in zip(old.parameters(), hand.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def skips(self: Any, epoch: Any, batch_idx: Any, optimizer: Any, optimizer_idx: Any, optimizer_closure: Any) -> None:
    if optimizer_idx == 0 or batch_idx % 2:
        optimizer.step(closure=optimizer_closure)
    else:
        optimizer_closure()


def skips_by_defaults(
    self: Any, epoch: Any = None, batch_idx: Any = None, optimizer: Any = None, optimizer_idx: Any = None, *,
    optimizer_closure: Any = None, using_lbfgs: Any = None,
) -> None:  # fmt: skip
    skips(self, epoch, batch_idx, optimizer, optimizer_idx, optimizer_closure)


@pytest.mark.filterwarnings("ignore::lt_core.LtDeprecationWarning")
@pytest.mark.parametrize("step", [skips, skips_by_defaults])
def test_an_optimizer_step_of_old_that_goes_by_optimizer_idx_skips_that_one_alone(step: Any) -> None:
    old, hand = type("Skips", (Old,), {"optimizer_step": step})(), Old()
    fit(old)
    optimizers, _ = hand.configure_optimizers()
    for number, (x,) in enumerate(loader()):
        for turn, optimizer in enumerate(optimizers):
            optimizer.zero_grad()
            hand.loss(x, turn).backward()
            if turn == 0 or number % 2:
                optimizer.step()
    for mine, theirs in zip(old.parameters(), hand.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_hooks_of_old_get_the_index_of_their_optimizer() -> None:
    seen: dict[str, list[int]] = {}

    class Indexed(Old):
        def training_step(self, batch: Any, batch_idx: int, optimizer_idx: int) -> Any:
            return self.loss(batch[0], optimizer_idx)

        def optimizer_zero_grad(self, epoch: int, batch_idx: int, optimizer: Any, opt_idx: int) -> None:
            seen.setdefault("optimizer_zero_grad", []).append(opt_idx)
            optimizer.zero_grad()

        def on_before_optimizer_step(self, optimizer: Any, optimizer_idx: int) -> None:
            seen.setdefault("on_before_optimizer_step", []).append(optimizer_idx)

        def lr_scheduler_step(self, scheduler: Any, optimizer_idx: int, metric: Any) -> None:
            seen.setdefault("lr_scheduler_step", []).append(optimizer_idx)
            scheduler.step()

        def configure_optimizers(self) -> Any:
            optimizers, _ = super().configure_optimizers()
            return optimizers, [torch.optim.lr_scheduler.StepLR(one, 1) for one in reversed(optimizers)]

    class Watches(Callback):
        def on_before_optimizer_step(self, trainer: Any, pl_module: Any, optimizer: Any, optimizer_idx: int) -> None:
            seen.setdefault("callback", []).append(optimizer_idx)

    Trainer(**QUIET, callbacks=Watches()).fit(Indexed(), loader(2))
    stepped = [0, 1, 0, 1]
    assert seen == {
        **dict.fromkeys(("optimizer_zero_grad", "on_before_optimizer_step", "callback"), stepped),
        "lr_scheduler_step": [1, 0],
    }


def test_frequency_gives_each_optimizer_so_many_batches_in_a_row() -> None:
    class Turns(Old):
        def configure_optimizers(self) -> Any:
            (one, two), _ = super().configure_optimizers()
            return {"optimizer": one, "frequency": 2}, {"optimizer": two, "frequency": 1}

    module = Turns()
    trainer = fit(module)
    assert module.calls == ["setup", 0, 0, 1, 0]
    trainer.max_epochs = 2
    trainer.fit(module, loader())
    assert module.calls[5:] == ["setup", 0, 1, 0, 0]


def test_epoch_end_hooks_get_the_outputs_of_all_steps() -> None:
    class Ends(Old):
        def training_epoch_end(self, outputs: Any) -> None:
            self.calls.append(("train", len(outputs)))

        def validation_step(self, batch: Any, batch_idx: int) -> Any:
            return batch[0].mean()

        def validation_epoch_end(self, outputs: Any) -> None:
            self.log("mean", torch.stack(outputs).mean())
            self.calls.append(("val", len(outputs)))

    module, trainer = Ends(), Trainer(**QUIET)
    with pytest.warns(LtDeprecationWarning) as told:
        trainer.fit(module, loader(), loader(2))
    messages = [str(warning.message) for warning in told]
    assert any("training_epoch_end" in message and "on_train_epoch_end" in message for message in messages)
    assert module.calls[-2:] == [("val", 2), ("train", 4)]
    assert "mean" in trainer.callback_metrics


@pytest.mark.filterwarnings("ignore:The hook .* is one of 1.x")
def test_hooks_of_old_come_before_and_after_those_of_today_as_they_did() -> None:
    calls: list[str] = []
    values: list[float] = []

    def hook(name: str) -> Any:
        def called(self: Any, *_: Any) -> None:
            calls.append(name)

        return called

    class Order(Callback):
        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            calls.append("on_train_epoch_end")
            values.append(trainer.callback_metrics["train"].item())

        def on_validation_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            calls.append("on_validation_epoch_end")
            values.append(trainer.callback_metrics["val"].item())

    for name in ("on_epoch_start", "on_epoch_end", "on_batch_start", "on_batch_end"):
        setattr(Order, name, hook(name))
    for name in ("on_train_epoch_start", "on_train_batch_start", "on_train_batch_end", "on_validation_epoch_start"):
        setattr(Order, name, hook(name))

    class Ends(Old):
        def training_epoch_end(self, outputs: Any) -> None:
            self.log("train", float(len(values)))

        def validation_step(self, batch: Any, batch_idx: int) -> Any:
            return batch[0].mean()

        def validation_epoch_end(self, outputs: Any) -> None:
            self.log("val", float(len(values)))

        def on_validation_epoch_end(self) -> None:
            values.append(self.trainer.callback_metrics["val"].item())

    Trainer(**{**QUIET, "max_epochs": 2}, callbacks=Order()).fit(Ends(), loader(1), loader(1))
    assert values == [0, 0, 2, 3, 3, 5]
    assert calls == 2 * [
        *("on_epoch_start", "on_train_epoch_start", "on_batch_start", "on_train_batch_start"),
        *("on_train_batch_end", "on_batch_end", "on_epoch_start", "on_validation_epoch_start"),
        *("on_validation_epoch_end", "on_epoch_end", "on_train_epoch_end", "on_epoch_end"),
    ]


@pytest.mark.parametrize(
    "hook", ["training_epoch_end", "on_epoch_end", "on_batch_start", "training_step_end", "on_train_epoch_end"]
)
@pytest.mark.parametrize("saves", [0, 2])
def test_a_hook_of_old_is_told_once_however_often_hooks_are_adapted(hook: str, saves: int, tmp_path: Any) -> None:
    class Told(Returns):
        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return self.layer(batch[0]).mean()

        validation_epoch_end = None  # type: ignore[assignment]

    class Keeps(Callback):
        def on_save_checkpoint(self, trainer: Any, pl_module: Any) -> Any:
            return {"steps": 4}

    calls: dict[str, Any] = {
        "training_step_end": lambda self, outputs: outputs,
        "training_epoch_end": lambda self, outputs: None,
        "on_train_epoch_end": lambda self, outputs: None,
    }
    setattr(Told, hook, calls.get(hook, lambda self: None))
    trainer = Trainer(**QUIET, callbacks=Keeps())
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer.fit(Told(), loader())
        for number in range(saves):
            trainer.save_checkpoint(tmp_path / f"{number}.ckpt")
    assert len([warning for warning in told if f"The hook {hook}" in str(warning.message)]) == 1


class Logs(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.layer(batch[0]).mean()
        self.log("loss", loss, on_epoch=True)
        return loss

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        return self.layer(batch[0]).mean()

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


def logs(self: Any, *arguments: Any) -> Any:
    self.log("logged", 1.0, on_epoch=True)
    return arguments[0] if arguments else None


LOGGING: dict[str, Any] = {
    "training_step_end": logs,
    "validation_epoch_end": lambda self, outputs: logs(self),
    "on_validation_epoch_end": lambda self, outputs: logs(self),
    "on_epoch_end": lambda self: None,
    "on_train_batch_start": lambda self, batch, batch_idx, dataloader_idx: logs(self),
}


@pytest.mark.filterwarnings("ignore:The hook .* is one of 1.x")
@pytest.mark.parametrize("hook", LOGGING)
def test_a_fit_that_continues_logs_in_hooks_of_old_as_before(hook: str) -> None:
    module = type("Again", (Logs,), {hook: LOGGING[hook]})()
    trainer = Trainer(**QUIET)
    for epochs in (1, 2, 3):
        trainer.max_epochs = epochs
        trainer.fit(module, loader(), loader(2))
    assert trainer.global_step == 12


def test_a_name_that_two_hooks_of_old_log_is_refused_by_the_users_names() -> None:
    class Twice(Logs):
        def on_train_batch_start(self, batch: Any, batch_idx: int, dataloader_idx: int) -> None:
            self.log("loss", 1.0, on_epoch=True)

    with pytest.raises(LogError, match=r"Twice\.on_train_batch_start and in Twice\.training_step"):
        Trainer(**QUIET, limit_val_batches=0).fit(Twice(), loader())


def test_hooks_with_the_signatures_of_old_are_filled_by_name() -> None:
    class Signatures(Old):
        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            return self.generator(batch[0]).pow(2).mean()

        def backward(self, use_amp: bool, loss: Tensor, optimizer: Any, optimizer_idx: int) -> None:
            self.calls.append((use_amp, type(optimizer), optimizer_idx))
            loss.backward()

        def optimizer_step(
            self, epoch: int, batch_idx: int, optimizer: Any, optimizer_idx: int, second_order_closure: Any = None
        ) -> None:
            optimizer.step(closure=second_order_closure)

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.generator.parameters(), 0.1)

    class Watcher(Callback):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx, dataloader_idx) -> None:  # type: ignore[override]
            pl_module.calls.append(dataloader_idx)

        def on_epoch_start(self, trainer: Any, pl_module: Any) -> None:
            pl_module.calls.append("epoch")

    module = Signatures()
    with pytest.warns(LtDeprecationWarning, match="on_epoch_start"):
        trainer = fit(module, callbacks=[Watcher()])
    assert module.calls[:4] == ["setup", "epoch", (False, torch.optim.SGD, 0), 0]
    assert trainer.global_step == 4


def _steps(self: Any, epoch: int, batch_idx: int, optimizer: Any, optimizer_idx: int, closure: Any) -> None:
    self.calls.append(optimizer_idx)
    optimizer.step(closure=closure)


def _goes_back(self: Any, loss: Tensor, optimizer: Any, optimizer_idx: int) -> None:
    self.calls.append(optimizer_idx)
    loss.backward()


def _clips(self: Any, optimizer: Any, opt_idx: int) -> None:
    self.calls.append(opt_idx)


class Plain(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        self.layer, self.calls = nn.Linear(8, 1), []

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss: Tensor = self.layer(batch[0]).pow(2).mean()
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


ALONE = {"optimizer_step": _steps, "backward": _goes_back, "on_before_optimizer_step": _clips}


@pytest.mark.parametrize("on_the_object", [False, True])
@pytest.mark.parametrize("name", ALONE)
def test_one_hook_of_old_among_those_of_today_is_filled(name: str, on_the_object: bool) -> None:
    kind: Any = Plain if on_the_object else type("Own", (Plain,), {name: ALONE[name]})
    module = kind()
    if on_the_object:
        setattr(module, name, ALONE[name].__get__(module))
    fit(module)
    assert module.calls == [0] * 4


@pytest.mark.filterwarnings("ignore:The hook .* is one of 1.x")
def test_an_adapted_module_is_the_users_to_all_that_look_at_what_it_holds() -> None:
    module = Ends()
    adapted = adapted_module(module)
    again = pickle.loads(pickle.dumps(adapted))
    assert isinstance(adapted, Ends)
    assert type(adapted).__name__ == "Ends"
    adapted.layer = nn.Linear(8, 2)
    assert module.layer is adapted.layer
    assert list(adapted.state_dict()) == list(module.state_dict())
    assert again.validation_step(None, 3) == 30
    assert again.layer is not module.layer


def test_truncated_back_propagation_hands_on_the_hidden_state() -> None:
    class Recurrent(LightningModule):
        truncated_bptt_steps = 5

        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.rnn = nn.LSTM(1, 4, batch_first=True)

        def training_step(self, batch: Any, batch_idx: int, hiddens: Any) -> Any:
            out, state = self.rnn(batch[0], hiddens)
            return {"loss": out.pow(2).mean(), "hiddens": state}

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    series = torch.randn(4, 20, 1, generator=torch.Generator().manual_seed(1))
    module, hand = Recurrent(), Recurrent()
    trainer = Trainer(**QUIET)
    trainer.fit(module, DataLoader(TensorDataset(series), batch_size=2))
    limited = Trainer(**QUIET, max_steps=6)
    limited.fit(Recurrent(), DataLoader(TensorDataset(series), batch_size=2))
    assert limited.global_step == 6  # in the middle of a batch
    optimizer = hand.configure_optimizers()
    for batch in (series[:2], series[2:]):
        state = None
        for start in range(0, 20, 5):
            out, state = hand.rnn(batch[:, start : start + 5], state)
            optimizer.zero_grad()
            out.pow(2).mean().backward()
            optimizer.step()
            state = tuple(part.detach() for part in state)
    assert trainer.global_step == 8
    for mine, theirs in zip(module.parameters(), hand.parameters(), strict=True):
        assert torch.equal(mine, theirs)


def test_a_signature_of_today_gets_no_adapter() -> None:
    def hook(outputs: Any, batch: Any, batch_idx: int) -> None: ...

    assert adapted(hook, "on_train_batch_end", Policy()) is hook


def test_what_cannot_be_filled_is_an_error_with_both_signatures() -> None:
    def hook(batch: Any, batch_idx: int, surprise: int) -> None: ...

    with pytest.raises(HookError, match=r"surprise.*on_train_batch_start\(batch, batch_idx\)"):
        adapted(hook, "on_train_batch_start", Policy())


def test_the_end_of_an_epoch_gets_the_outputs_of_its_steps_where_it_wants_them() -> None:
    seen: dict[str, Any] = {}

    class Net(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            return {"loss": self.layer(batch[0]).mean(), "number": batch_idx}

        def validation_step(self, batch: Any, batch_idx: int) -> int:
            return 10 * batch_idx

        def on_train_epoch_end(self, outputs: Any) -> None:
            seen["train"] = [output["number"] for output in outputs]

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    class Keeps(Callback):
        def on_validation_epoch_end(self, trainer: Any, pl_module: Any, outputs: Any) -> None:
            seen["validation"] = outputs

    with pytest.warns(LtDeprecationWarning, match=r"(train|validation)_epoch_end\(outputs\)"):
        Trainer(**{**QUIET, "max_epochs": 2}, callbacks=Keeps()).fit(Net(), loader(3), loader(2))
    assert seen == {"train": [0, 1, 2], "validation": [0, 10]}


@pytest.mark.filterwarnings("ignore:The hook .* is one of 1.x")
@pytest.mark.parametrize("loaders", [1, 2])
def test_the_end_of_a_prediction_gets_the_results_of_each_loader(loaders: int) -> None:
    seen: list[Any] = []

    class Net(LightningModule):
        def predict_step(self, batch: Any, batch_idx: int, dataloader_idx: int = 0) -> int:
            return 10 * dataloader_idx + batch_idx

        def on_predict_epoch_end(self, results: Any) -> None:
            seen.append(results)

    class Keeps(Callback):
        def on_predict_epoch_end(self, trainer: Any, pl_module: Any, outputs: Any) -> None:
            seen.append(outputs)

    Trainer(**QUIET, callbacks=Keeps()).predict(Net(), [loader(2)] * loaders)
    assert seen == [[[0, 1], [10, 11]][:loaders]] * 2


@pytest.mark.filterwarnings("ignore:The hook .* is one of 1.x")
def test_a_callbacks_epoch_end_without_trainer_and_module_is_shown_as_it_is_and_as_it_is_called() -> None:
    class Forgets(Callback):
        def on_train_epoch_end(self) -> None:
            pass

    with pytest.raises(HookError, match=r"on_train_epoch_end\(\).* does not fit: lt calls .*\(trainer, pl_module\)"):
        Trainer(**QUIET, callbacks=Forgets()).fit(Ends(), loader())


def test_callbacks_are_told_when_a_trainer_is_made() -> None:
    class Told(Callback):
        def __init__(self) -> None:
            self.trainers: list[Any] = []

        def on_init_start(self, trainer: Any) -> None:
            self.trainers.append(trainer)

        def on_init_end(self, trainer: Any) -> None:
            self.trainers.append(trainer)

    told = Told()
    with pytest.warns(LtDeprecationWarning, match=r"on_init_(start|end) is one of 1.x: write setup"):
        trainer = Trainer(**QUIET, callbacks=told)
    assert told.trainers == [trainer, trainer]


class Ends(LightningModule):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(8, 1)
        self.seen: list[Any] = []

    def configure_sharded_model(self) -> None:
        self.seen.append("layers")

    def setup(self, **kwargs: Any) -> None:
        self.seen.append(kwargs)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        return {"scores": self.layer(batch[0])}

    def training_step_end(self, outputs: Any) -> Tensor:
        return outputs["scores"].square().mean()

    def validation_step(self, batch: Any, batch_idx: int) -> int:
        return batch_idx

    def validation_step_end(self, outputs: int) -> int:
        return 10 * outputs

    def validation_epoch_end(self, outputs: list[int]) -> None:
        self.seen.append(outputs)

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


@pytest.mark.filterwarnings("ignore:The hook .* is one of 1.x")
def test_what_a_step_returns_goes_through_its_end() -> None:
    module, other = Ends(), Ends()
    Trainer(**QUIET).fit(module, loader(), loader(2))
    optimizer = other.configure_optimizers()
    for batch in loader():
        optimizer.zero_grad()
        other.layer(batch[0]).square().mean().backward()
        optimizer.step()
    assert torch.equal(module.layer.weight, other.layer.weight)
    assert module.seen == [{"stage": "fit"}, "layers", [0, 10]]


@pytest.mark.parametrize(
    "hook",
    [lambda **kwargs: kwargs["stage"], lambda *, stage: stage, lambda *args: args[0], lambda step: step],
    ids=["keywords", "a keyword", "positions", "another name"],
)
def test_any_way_to_take_an_argument_gets_it(hook: Any) -> None:
    assert adapted(hook, "setup", Policy())("fit") == "fit"


class KeepsState(Callback):
    """Saves and loads its own state as up to 1.5."""

    def __init__(self) -> None:
        self.steps, self.loaded = 0, None

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        self.steps += 1

    def on_save_checkpoint(self, trainer: Any, pl_module: Any, checkpoint: Any) -> Any:
        return {"steps": self.steps}

    def on_load_checkpoint(self, trainer: Any, pl_module: Any, callback_state: Any) -> None:
        self.loaded = callback_state


class KeepsStateIn10(KeepsState):
    def on_save_checkpoint(self, trainer: Any, pl_module: Any) -> Any:
        return {"steps": self.steps}

    def on_load_checkpoint(self, checkpointed_state: Any) -> None:
        self.loaded = checkpointed_state


@pytest.mark.filterwarnings("ignore:The hook .* is one of 1.x")
@pytest.mark.parametrize("kind", [KeepsState, KeepsStateIn10])
def test_a_callback_keeps_what_its_saving_hook_returns(kind: Any, tmp_path: Any) -> None:
    trainer = Trainer(**QUIET, callbacks=kind())
    trainer.fit(Ends(), loader())
    trainer.save_checkpoint(tmp_path / "one.ckpt")
    again = kind()
    Trainer(**{**QUIET, "max_epochs": 2}, callbacks=again).fit(Ends(), loader(), ckpt_path=tmp_path / "one.ckpt")
    assert again.loaded == {"steps": 4}


class Returns(LightningModule):
    """A module as the guides of 0.7 to 0.9 write one: what is logged is returned."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 1)

    def training_step(self, batch: Any, batch_idx: int) -> Any:
        loss = self.layer(batch[0]).pow(2).mean()
        return {"loss": loss, "log": {"train_loss": loss, "image": batch[0]}, "progress_bar": {"tl": 2.5}}

    def validation_step(self, batch: Any, batch_idx: int) -> Any:
        return {"val_loss": torch.tensor(float(batch_idx))}

    def validation_epoch_end(self, outputs: Any) -> Any:
        mean = torch.stack([output["val_loss"] for output in outputs]).mean()
        return {"val_loss": mean, "log": {"logged": mean + 1}, "progress_bar": {"logged": mean + 1}}

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 0.1)


def test_what_was_returned_to_be_logged_is_logged_and_told_once() -> None:
    module = Returns()
    trainer = Trainer(**{**QUIET, "max_epochs": 2})
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        trainer.fit(module, loader(), loader())
    assert len([warning for warning in told if "to be logged, as up to 0.9" in str(warning.message)]) == 2
    metrics = trainer.callback_metrics
    assert sorted(metrics) == ["logged", "tl", "train_loss", "val_loss"]
    assert (metrics["val_loss"], metrics["logged"], metrics["tl"]) == (1.5, 2.5, 2.5)
    assert sorted(trainer.logged_metrics) == ["logged", "train_loss"]
    assert sorted(trainer.progress_bar_metrics) == ["logged", "tl"]


def test_a_name_that_the_module_logs_itself_is_left_to_it() -> None:
    class Both(Returns):
        validation_epoch_end = None  # type: ignore[assignment]

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            self.log("tl", 1.0)
            self.log("train_loss", 1.0)
            return super().training_step(batch, batch_idx)

    trainer = fit(Both())
    assert {name: value.item() for name, value in trainer.callback_metrics.items()} == {"tl": 1.0, "train_loss": 1.0}


def test_a_callback_that_makes_methods_up_for_any_name_has_no_old_hooks() -> None:
    class MakesUp(Callback):
        def __getattr__(self, name: str) -> Any:
            if name.startswith("on_"):
                return lambda *arguments: pytest.fail(f"{name} was called")
            raise AttributeError(name)

    class Net(LightningModule):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(8, 1)

        def training_step(self, batch: Any, batch_idx: int) -> Tensor:
            loss: Tensor = self.layer(batch[0]).sum()
            return loss

        def configure_optimizers(self) -> Any:
            return torch.optim.SGD(self.parameters(), 0.1)

    with warnings.catch_warnings():
        warnings.simplefilter("error", LtDeprecationWarning)
        Trainer(**QUIET, callbacks=[MakesUp()]).fit(Net(), loader())
