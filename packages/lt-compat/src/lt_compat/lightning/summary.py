"""The summary of a model's layers under Lightning's names."""

from __future__ import annotations

import math
from importlib import import_module
from typing import TYPE_CHECKING, Any

from torch import nn

if TYPE_CHECKING:
    from lt_callbacks.summary.module_table import ModuleTable as Table
else:
    Table = import_module("lt_callbacks.summary.module_table").ModuleTable

__all__ = ["LayerSummary", "ModelSummary", "get_human_readable_count"]


class LayerSummary:
    """One layer.

    Args:
        module: the layer.
    """

    in_size = out_size = "?"

    def __init__(self, module: nn.Module) -> None:
        self.layer_type = type(module).__name__
        self.num_parameters = sum(param.numel() for param in module.parameters())
        self.training = module.training

    def detach_hook(self) -> None:
        """Do nothing: the sizes were measured when the summary was made."""


class ModelSummary(Table):
    """lt's table, with the attributes of Lightning's."""

    @property
    def named_modules(self) -> list[tuple[str, nn.Module]]:
        """The layers that have a line."""
        return list(self.layers.items())

    @property
    def total_layer_params(self) -> int:
        """Parameters of all lines together; nested layers count in each."""
        return sum(self.param_nums)

    @property
    def training_modes(self) -> list[bool]:
        """Whether each line's layer is in train mode."""
        return [row.mode == "train" for row in self.rows]

    @property
    def total_training_modes(self) -> dict[str, int]:
        """How many layers are in train and in eval mode."""
        return {mode: self.modes[mode] for mode in ("train", "eval")}

    @property
    def in_sizes(self) -> list[Any]:
        """Shape of each line's input, ``"?"`` where it is not known."""
        return ["?" if size is None else size for size in super().in_sizes]

    @property
    def out_sizes(self) -> list[Any]:
        """Shape of each line's output, ``"?"`` where it is not known."""
        return ["?" if size is None else size for size in super().out_sizes]

    @property
    def _layer_summary(self) -> dict[str, LayerSummary]:
        return self.summarize()

    @property
    def flop_counts(self) -> dict[str, dict[Any, int]]:
        """The operations of each line's layer in one forward of the example; nothing without one."""
        return {row.name: {} if row.flops is None else {"total": row.flops} for row in self.rows}

    def summarize(self) -> dict[str, LayerSummary]:
        """Return the layers by their names."""
        found = {name: LayerSummary(module) for name, module in self.layers.items()}
        for layer, read, written in zip(found.values(), self.in_sizes, self.out_sizes, strict=True):
            layer.in_size, layer.out_size = read, written
        return found

    def _get_summary_data(self) -> list[tuple[str, list[str]]]:
        return [(title or " ", cells) for title, cells in self.columns()]


def get_human_readable_count(number: int) -> str:
    """Return a count in three digits and a letter, padded: ``123`` -> ``"123  "``, ``1234`` -> ``"1.2 K"``."""
    power = min(int(math.log10(number)) // 3, 4) if number > 0 else 0
    scaled = number / 1000**power
    digits = f"{int(scaled):,d}" if power == 0 or scaled >= 100 else f"{scaled:,.1f}"
    return f"{digits} {' KMBT'[power]}"
