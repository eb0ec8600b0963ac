"""The table of a module's layers: names, types, parameters, modes; sizes and FLOPs given an example input."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from lt_callbacks.arguments import whole as whole_number
from lt_core.batch import move_to_device
from lt_core.errors import warn
from lt_core.seed import preserve_generators

__all__ = ["LayerRow", "ModuleTable", "human_count"]

Run = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Wraps a forward, as a precision does."""


@dataclass(frozen=True, slots=True)
class LayerRow:
    """One line of the table.

    Attributes:
        name: the layer's name in the module.
        kind: its class.
        parameters: number of parameters, of all layers inside too.
        mode: ``"train"`` or ``"eval"``.
        flops: floating-point operations of one forward of the example, or None.
        in_size: shape of the example's input to it, or None.
        out_size: shape of its output, or None.
    """

    name: str
    kind: str
    parameters: int
    mode: str
    flops: int | None = None
    in_size: Any = None
    out_size: Any = None


class ModuleTable:
    """Layers of a module with their parameters, sizes and FLOPs; ``str()`` gives the table as text.

    Where the module has an ``example_input_array``, it is run through ``forward`` once, without gradients, in
    evaluation mode, with all random generators left as they were; that gives the sizes and the FLOPs.

    Args:
        module: a LightningModule or any other.
        max_depth: how many levels of layers get a line: 1 the children, 0 none, -1 all.
        wrap: wraps the forward of the example, as the run's precision does.
        whole: the module with the layers of all ranks, counted in place of ``module``.

    Raises:
        ConfigError: for a ``max_depth`` below -1.
    """

    def __init__(
        self, module: nn.Module, max_depth: int = 1, wrap: Run | None = None, *, whole: nn.Module | None = None
    ) -> None:
        self.max_depth = whole_number(
            "ModelSummary", "max_depth", max_depth, -1, "0 for totals only, -1 for all levels"
        )
        counted = module if whole is None else whole
        self.layers = _layers(counted, max_depth)
        parameters = [p for p in counted.parameters() if not is_lazy(p)]
        self.total_parameters = _count(parameters)
        self.trainable_parameters = _count(p for p in parameters if p.requires_grad)
        self.model_size = sum(p.numel() * p.element_size() for p in parameters) / 1e6
        self.has_lazy_parameters = any(map(is_lazy, counted.parameters()))
        self.modes = Counter("train" if m.training else "eval" for m in list(counted.modules())[1:])
        listed = {id(p) for layer in self.layers.values() for p in layer.parameters()}
        self.other_parameters = _count(p for p in parameters if id(p) not in listed) if self.layers else 0
        with preserve_generators():  # it may be a property that draws
            wanted = getattr(module, "example_input_array", None) is not None
        measured = _measure(module, _layers(module, max_depth), wrap) if wanted else {}
        self.has_example = bool(measured)
        self.total_flops = measured[""][0] if measured else 0
        unknown = (0, "?", "?") if measured else (None, None, None)
        self.rows = [
            LayerRow(
                name,
                type(layer).__name__,
                _count(layer.parameters()),
                "train" if layer.training else "eval",
                *measured.get(name, unknown),
            )
            for name, layer in self.layers.items()
        ]

    @property
    def param_nums(self) -> list[int]:
        """Number of parameters of each line."""
        return [row.parameters for row in self.rows]

    @property
    def layer_names(self) -> list[str]:
        """Name of each line."""
        return [row.name for row in self.rows]

    @property
    def layer_types(self) -> list[str]:
        """Class of each line."""
        return [row.kind for row in self.rows]

    @property
    def in_sizes(self) -> list[Any]:
        """Shape of each line's input."""
        return [row.in_size for row in self.rows]

    @property
    def out_sizes(self) -> list[Any]:
        """Shape of each line's output."""
        return [row.out_size for row in self.rows]

    def columns(self) -> list[tuple[str, list[str]]]:
        """Return the table as text: each column's title and its cells from top to bottom."""
        rows = self.rows
        table = [
            ("", [str(i) for i in range(len(rows))]),
            ("Name", self.layer_names),
            ("Type", self.layer_types),
            ("Params", [*map(human_count, self.param_nums)]),
            ("Mode", [row.mode for row in rows]),
        ]
        if self.has_example:
            table += [
                ("FLOPs", [human_count(row.flops or 0) for row in rows]),
                ("In sizes", [*map(str, self.in_sizes)]),
                ("Out sizes", [*map(str, self.out_sizes)]),
            ]
        if self.other_parameters:
            extra = ["", "other params", "n/a", human_count(self.other_parameters)]
            for (_, cells), cell in zip(table, extra + ["n/a"] * (len(table) - len(extra)), strict=True):
                cells.append(cell)
        return table

    def totals(self) -> list[tuple[str, str]]:
        """Return the lines below the table: value and label; a line that is trivial for this module is left out."""
        frozen = self.total_parameters - self.trainable_parameters
        lines = [(human_count(self.trainable_parameters), "Trainable params")]
        if frozen:
            total = (human_count(self.total_parameters), "Total params")
            lines += [(human_count(frozen), "Non-trainable params"), total]
        size = f"{self.model_size:.3f}" if self.model_size < 100 else f"{self.model_size:,.0f}"
        lines.append((size, "Total estimated model params size (MB)"))
        if self.modes["eval"]:
            lines.append((f"{self.modes['eval']} of {self.modes.total()}", "Modules in eval mode"))
        if self.has_example:
            lines.append((human_count(self.total_flops), "Total FLOPs"))
        if self.has_lazy_parameters:
            lines.append(("", "Lazy layers are not counted: they get their parameters in the first forward."))
        return lines

    def shown_columns(self) -> list[tuple[str, list[str]]]:
        """Return :meth:`columns` without the mode where all modules are in train mode."""
        return [column for column in self.columns() if column[0] != "Mode" or self.modes["eval"]]

    def __str__(self) -> str:
        columns = self.shown_columns()
        widths = [max(len(text) for text in [title, *cells]) for title, cells in columns]
        head = " | ".join(title.ljust(width) for (title, _), width in zip(columns, widths, strict=True))
        lines = [head, "-" * len(head)] if columns[0][1] else []
        lines += [
            " | ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip()
            for cells in zip(*(cells for _, cells in columns), strict=True)
        ]
        if lines:
            lines.append("-" * len(head))
        lines += [f"{value:<10}{what}" for value, what in self.totals()]
        return "\n".join(lines)


def human_count(number: float) -> str:
    """Return a count in three digits and a letter: ``1234`` -> ``1.2 K``; ``0`` -> ``0``."""
    if number < 1000:
        return str(int(number))
    power = min(int(math.log10(number) // 3), 4)
    scaled = number / 1000**power
    digits = f"{scaled:.1f}" if scaled < 100 else f"{scaled:.0f}"
    return f"{digits} {' KMBT'[power]}"


def _count(parameters: Iterable[Tensor]) -> int:
    return sum(0 if is_lazy(parameter) else parameter.numel() for parameter in parameters)


def _layers(module: nn.Module, max_depth: int) -> dict[str, nn.Module]:
    named = module.named_modules()
    return {name: layer for name, layer in named if name and (max_depth == -1 or name.count(".") < max_depth)}


def _measure(module: nn.Module, layers: dict[str, nn.Module], wrap: Run | None) -> dict[str, tuple[int, Any, Any]]:
    """Run the example through ``forward``: FLOPs, input and output size by layer, the sum of FLOPs under ``""``.

    Where it fails, there is a warning, and nothing is measured.
    """
    from torch.utils.flop_counter import FlopCounterMode

    sizes: dict[str, tuple[Any, Any]] = {}

    def note(name: str, _: nn.Module, inputs: tuple[Any, ...], output: Any) -> None:
        sizes.setdefault(name, (_shape(inputs[0] if len(inputs) == 1 else inputs), _shape(output)))

    handles = [layer.register_forward_hook(partial(note, name)) for name, layer in layers.items()]
    counter = FlopCounterMode(display=False)
    try:
        with preserve_generators(), _evaluating(module), torch.no_grad(), counter:
            _call(wrap(module) if wrap is not None else module, module.example_input_array, module)
    except Exception as error:
        warn(
            f"The weights summary has no sizes: example_input_array could not be run through "
            f"{type(module).__name__}.forward ({type(error).__name__}: {error}).",
            code="LT241",
        )
        return {}
    finally:
        for handle in handles:
            handle.remove()
    counts = counter.get_flop_counts()
    found: dict[str, tuple[int, Any, Any]] = {"": (counter.get_total_flops(), None, None)}
    for name in layers:
        flops = sum(counts.get(f"{type(module).__name__}.{name}", {}).values())
        found[name] = flops, *sizes.get(name, ("?", "?"))
    return found


def _call(forward: Callable[..., Any], example: Any, module: nn.Module) -> None:
    device = next((p.device for p in module.parameters()), torch.device("cpu"))
    example = move_to_device(example, device)
    if isinstance(example, dict):
        forward(**example)
    elif isinstance(example, (list, tuple)):
        forward(*example)
    else:
        forward(example)


@contextmanager
def _evaluating(module: nn.Module) -> Iterator[None]:
    """Put every layer in evaluation mode for a while; running statistics stay as they are."""
    modes = [(layer, layer.training) for layer in module.modules()]
    module.eval()
    try:
        yield
    finally:
        for layer, training in modes:
            layer.training = training


def _shape(value: Any) -> Any:
    """Return the shape of a tensor, a list of shapes of several, or ``"?"``."""
    if hasattr(value, "shape"):
        return list(value.shape)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_shape(item) for item in value]
    return "?"
