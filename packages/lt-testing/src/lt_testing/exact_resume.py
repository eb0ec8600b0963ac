"""A check for your own project: a run that is stopped anywhere and resumed ends as the one that was not stopped."""

import tempfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from lt_core.callback import Callback
from lt_core.seed import preserve_generators
from lt_testing.training import fingerprint

__all__ = ["assert_resumes_exactly"]


def assert_resumes_exactly(
    make_trainer: Callable[..., Any],
    make_model: Callable[[], Any],
    make_data: Callable[[], Any],
    *,
    moments: Iterable[int] | None = None,
) -> None:
    """Fail unless runs stopped after each of ``moments`` and resumed equal the uninterrupted run, bit for bit.

    Compared are every batch, every loss, the final weights, optimizers, schedulers, counters and logged metrics.

    Args:
        make_trainer: called with ``callbacks=[...]`` and ``default_root_dir=...``; returns a Trainer that got these
            (with its own ``callbacks`` beside them).
        make_model: returns a new module, the same each time: seed it inside (``seed_everything``).
        make_data: returns a datamodule or a training loader.
        moments: numbers of training batches, counted over all epochs, after which to stop; by default the first, one in
            the middle, and those around the middle epoch's edge.

    Raises:
        AssertionError: with the first difference, and the moment after which it appears.
    """
    with preserve_generators(), tempfile.TemporaryDirectory() as folder:
        whole = _Witness()
        expected = _run(make_trainer, make_model, make_data, whole, Path(folder, "whole"), None)
        for moment in _moments(whole) if moments is None else moments:
            path = str(Path(folder, f"stopped_{moment}.ckpt"))
            stopped = _Witness(moment, path)
            _run(make_trainer, make_model, make_data, stopped, Path(folder, f"run_{moment}"), None)
            resumed = _Witness()
            found = _run(make_trainer, make_model, make_data, resumed, Path(folder, f"run_{moment}"), path)
            _compare(f"stopped after batch {moment} and resumed", whole.seen[moment:], resumed.seen, expected, found)


class _Stopped(BaseException):
    """Ends a run as a kill would: no hook of the user's can catch it by accident."""


class _Witness(Callback):
    """Notes every batch and loss; stops a run right after a save."""

    priority = -1000

    def __init__(self, stop_after: int | None = None, path: str = "") -> None:
        self.stop_after, self.path = stop_after, path
        self.seen: list[tuple[int, int, str, str]] = []
        self.batches_of_epochs: list[int] = []

    def on_train_batch_end(self, trainer: Any, pl_module: Any, outputs: Any, batch: Any, batch_idx: int) -> None:
        loss = outputs.get("loss") if isinstance(outputs, Mapping) else outputs
        self.seen.append((trainer.current_epoch, batch_idx, fingerprint(batch), fingerprint(loss)))
        if self.stop_after == len(self.seen):
            trainer.request_save(self.path, owner=self)

    def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
        self.batches_of_epochs.append(len(self.seen))

    def on_saved(self, path: str) -> None:
        raise _Stopped


def _moments(whole: _Witness) -> list[int]:
    """Return the first batch, one in the middle, and those around an epoch's edge in the middle."""
    total, edges = len(whole.seen), whole.batches_of_epochs
    edge = edges[(len(edges) - 1) // 2] if edges else total
    wanted = {1, total // 2, edge - 1, edge, edge + 1, total}
    return sorted(moment for moment in wanted if 1 <= moment <= total)


def _run(
    make_trainer: Callable[..., Any],
    make_model: Callable[[], Any],
    make_data: Callable[[], Any],
    witness: _Witness,
    folder: Path,
    ckpt_path: str | None,
) -> dict[str, str]:
    """Fit once; return fingerprints of everything that the run left, by name."""
    model, data = make_model(), make_data()
    trainer = make_trainer(callbacks=[witness], default_root_dir=str(folder))
    assert witness in trainer.callbacks, "make_trainer must pass the callbacks that it gets on to the Trainer"
    try:
        trainer.fit(model, data, ckpt_path=ckpt_path)
    except _Stopped:
        return {}
    finally:
        trainer.checkpoint_io.wait()
    left: dict[str, Any] = {f"weights of {name}": value for name, value in model.state_dict().items()}
    for number, optimizer in enumerate(trainer.optimizers):
        left[f"state of optimizer {number}"] = optimizer.state_dict()
    for number, config in enumerate(trainer.lr_scheduler_configs):
        left[f"state of scheduler {number}"] = config.scheduler.state_dict()
    left["counters"] = (trainer.current_epoch, trainer.global_step)
    left |= {f"metric {name}": value for name, value in trainer.callback_metrics.items()}
    return {name: fingerprint(value) for name, value in left.items()}


def _compare(
    when: str, seen: list[Any], seen_again: list[Any], expected: dict[str, str], found: dict[str, str]
) -> None:
    for (epoch, batch, data, loss), again in zip(seen, seen_again, strict=False):
        assert again[:2] == (epoch, batch), (
            f"{when}: it went on at epoch {again[0]}, batch {again[1]}, not {epoch}, {batch}"
        )
        assert again[2] == data, f"{when}: epoch {epoch}, batch {batch} holds other data"
        assert again[3] == loss, f"{when}: the loss of epoch {epoch}, batch {batch} differs"
    assert len(seen) == len(seen_again), f"{when}: {len(seen_again)} batches were left, not {len(seen)}"
    for name, value in expected.items():
        assert found.get(name) == value, f"{when}: {name} differs"
