"""The graph of a model for TensorBoard, traced without leaving a trace in the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn

from lt_core.batch import move_to_device


class _ByPosition(nn.Module):
    """A model that is called with keywords, for a tracer that knows positions only."""

    def __init__(self, model: nn.Module, names: list[str]) -> None:
        super().__init__()
        self.model, self._names = model, names

    def forward(self, *args: Any) -> Any:
        return self.model(**dict(zip(self._names, args, strict=True)))


def add_graph(writer: Any, model: nn.Module, inputs: Any) -> None:
    """Trace ``model`` with ``inputs`` (a tensor, a tuple of arguments or a dict of keywords) and write its graph.

    The model runs once in eval mode without gradients: running means and modes stay as they were.
    """
    device = next((tensor.device for tensor in (*model.parameters(), *model.buffers())), torch.device("cpu"))
    inputs = move_to_device(inputs, device)
    modes = [(part, part.training) for part in model.modules()]
    traced: nn.Module = model
    if isinstance(inputs, Mapping):
        traced, inputs = _ByPosition(model, list(inputs)), tuple(inputs.values())
    try:
        model.eval()
        with torch.no_grad():
            writer.add_graph(traced, inputs)
    finally:
        for part, training in modes:
            part.training = training
