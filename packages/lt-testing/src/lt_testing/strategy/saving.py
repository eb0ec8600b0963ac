"""Checks of saving: states, files, resuming, and loading without the strategy."""
# ruff: noqa: D103  a check's name is its sentence

from collections.abc import Mapping
from os import PathLike
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.optim import Optimizer

from lt_core.checkpoint import CheckpointIO
from lt_core.precision import Precision
from lt_core.strategy import Strategy
from lt_testing.strategy.bench import Bench, SmallNet, Tree
from lt_testing.strategy.checks import check


def _tree(strategy: Strategy, module: nn.Module, optimizer: Optimizer) -> Tree:
    return {
        "state_dict": strategy.module_state(module),
        "optimizer_states": [strategy.optimizer_state(module, optimizer)],
        "note": "plain data",
    }


def _saved(bench: Bench, steps: int = 3) -> tuple[Strategy, nn.Module, Path]:
    strategy = bench.strategy()
    module, optimizer = bench.train(strategy, SmallNet(), steps=steps)
    path = bench.folder / "kit.ckpt"
    strategy.save_checkpoint(bench.io, _tree(strategy, module, optimizer), path)
    strategy.barrier("saved")
    return strategy, module, path


@check()
def the_full_state_loads_into_a_plain_module(bench: Bench) -> None:
    strategy = bench.strategy()
    module, _ = bench.train(strategy, SmallNet(), steps=2)
    state = strategy.full_module_state(module)
    plain = SmallNet(seed=5)
    plain.load_state_dict(state)
    assert all(type(value) is torch.Tensor and value.device.type == "cpu" for value in state.values())


@check()
def a_module_s_state_goes_back_into_the_module(bench: Bench) -> None:
    strategy = bench.strategy()
    module, _ = bench.train(strategy, SmallNet(), steps=2)
    state = {name: value.clone() for name, value in strategy.module_state(module).items()}
    before = bench.weights(strategy, module)
    other, _ = strategy.setup(SmallNet(seed=7), None, Precision())
    strategy.load_module_state(other, state)
    bench.assert_close(bench.weights(strategy, other), before)


@check()
def a_full_state_of_a_plain_module_can_be_loaded(bench: Bench) -> None:
    strategy, module = bench.ready(SmallNet(seed=7))
    strategy.load_module_state(module, SmallNet(seed=3).state_dict())
    bench.assert_close(bench.weights(strategy, module), SmallNet(seed=3).state_dict())


@check()
def a_checkpoint_is_there_for_every_rank_after_saving(bench: Bench) -> None:
    _, _, path = _saved(bench)
    assert path.exists()


class _Noting(CheckpointIO):
    """Notes in a folder which ranks write, and which remove."""

    def __init__(self, bench: Bench) -> None:
        self._note = bench.folder / f"written_by_rank_{bench.rank}"
        self._removed = bench.folder / f"removed_by_rank_{bench.rank}"

    def save_checkpoint(
        self, checkpoint: Mapping[str, Any], path: str | PathLike[str], storage_options: Any = None
    ) -> None:
        with self._note.open("a") as note:
            note.write("once\n")
        super().save_checkpoint(checkpoint, path, storage_options)

    def remove_checkpoint(self, path: str | PathLike[str]) -> None:
        self._removed.touch()
        super().remove_checkpoint(path)


@check(unless=("sharded_checkpoints",))
def rank_0_alone_writes_a_file_and_writes_it_once(bench: Bench) -> None:
    strategy = bench.strategy()
    tree = _tree(strategy, *bench.train(strategy, SmallNet(), steps=1))
    strategy.save_checkpoint(_Noting(bench), tree, bench.folder / "kit.ckpt")
    strategy.barrier("saved")
    notes = {path.name: path.read_text() for path in bench.folder.glob("written_by_rank_*")}
    assert notes == {"written_by_rank_0": "once\n"}, f"the CheckpointIO was called by {notes}; expected: rank 0, once"


@check(unless=("sharded_checkpoints",))
def rank_0_alone_removes_a_file(bench: Bench) -> None:
    strategy, _, path = _saved(bench)
    strategy.remove_checkpoint(_Noting(bench), path)
    strategy.barrier("removed")
    notes = [each.name for each in bench.folder.glob("removed_by_rank_*")]
    assert notes == ["removed_by_rank_0"], f"the CheckpointIO was called as {notes}; expected: by rank 0"


@check()
def every_rank_reads_back_what_was_saved(bench: Bench) -> None:
    strategy, _, path = _saved(bench)
    tree = strategy.load_checkpoint(bench.io, path)
    assert tree["note"] == "plain data"
    assert set(tree["state_dict"]) == set(SmallNet().state_dict())


@check(needs=("exact",))
def a_restored_run_goes_on_as_the_uninterrupted_one(bench: Bench) -> None:
    _, _, path = _saved(bench, steps=3)
    strategy = bench.strategy()
    tree = strategy.load_checkpoint(bench.io, path)

    def restore(module: nn.Module, optimizer: Optimizer) -> None:
        strategy.load_module_state(module, tree["state_dict"])
        strategy.load_optimizer_state(module, optimizer, tree["optimizer_states"][0])

    module, _ = bench.train(strategy, SmallNet(seed=9), steps=3, start=3, prepare=restore)
    bench.assert_close(bench.weights(strategy, module), bench.plain(SmallNet(), steps=6).state_dict())


@check()
def restored_weights_are_those_that_were_saved_on_rank_0(bench: Bench) -> None:
    strategy, module, path = _saved(bench)
    saved = strategy.broadcast(bench.weights(strategy, module), 0)
    other, _ = strategy.setup(SmallNet(seed=9), None, Precision())
    strategy.load_module_state(other, strategy.load_checkpoint(bench.io, path)["state_dict"])
    bench.assert_close(bench.weights(strategy, other), saved)


@check()
def a_checkpoint_loads_on_one_cpu_without_the_strategy(bench: Bench) -> None:
    strategy, module, path = _saved(bench)
    if path.is_dir():
        bench.skip("a checkpoint is a folder of parts")
    saved = strategy.broadcast(bench.weights(strategy, module), 0)
    tree = Strategy().load_checkpoint(bench.io, path)
    plain = SmallNet(seed=9)
    plain.load_state_dict(tree["state_dict"])
    bench.assert_close(dict(plain.state_dict()), saved)


@check()
def an_optimizer_s_state_is_tensors_and_plain_data(bench: Bench) -> None:
    strategy = bench.strategy()
    module, optimizer = bench.train(strategy, SmallNet(), steps=1)
    state = strategy.optimizer_state(module, optimizer)
    if bench.rank == 0:
        assert {"state", "param_groups"} <= set(state)


@check()
def a_removed_checkpoint_is_gone(bench: Bench) -> None:
    strategy, _, path = _saved(bench)
    strategy.remove_checkpoint(bench.io, path)
    strategy.barrier("removed")
    assert not path.exists()
