"""Whether a module serves: exported, read by a process that knows neither the class nor lt, same outputs, how fast."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.utils._pytree import tree_leaves

from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = ["ServingCheck", "ServingReport", "check_serving"]

_SERVER = """
import json, sys, time
import torch
folder, repeats = sys.argv[1], int(sys.argv[2])
start = time.perf_counter()
module = torch.export.load(f"{folder}/program.pt2").module()
loaded = time.perf_counter() - start
args, kwargs = torch.load(f"{folder}/inputs.pt", weights_only=True)
seconds = []
with torch.inference_mode():
    for _ in range(repeats + 1):
        start = time.perf_counter()
        outputs = module(*args, **kwargs)
        for output in torch.utils._pytree.tree_leaves(outputs):
            if isinstance(output, torch.Tensor) and output.is_cuda:
                torch.cuda.synchronize(output.device)
        seconds.append(time.perf_counter() - start)
torch.save(torch.utils._pytree.tree_leaves(outputs), f"{folder}/outputs.pt")
print(json.dumps({"load_seconds": loaded, "latency": sorted(seconds[1:])[repeats // 2]}))
"""


@dataclass(frozen=True, kw_only=True, slots=True)
class ServingReport:
    """How a module serves.

    Attributes:
        num_bytes: of the exported file.
        load_seconds: until a fresh process has read it, torch's import left out.
        latency: seconds of one call, the median.
        largest_difference: between an output here and there.
    """

    num_bytes: int
    load_seconds: float
    latency: float
    largest_difference: float

    def __str__(self) -> str:
        return (
            f"serves: {self.num_bytes / 2**20:.2f} MiB, read in {self.load_seconds:.2f} s, "
            f"{self.latency * 1e3:.2f} ms a call, outputs differ by at most {self.largest_difference:.1g}"
        )


def check_serving(
    module: nn.Module,
    example: Any = None,
    *,
    dynamic_shapes: Any = None,
    repeats: int = 20,
    rtol: float = 1e-4,
    atol: float = 1e-5,
    timeout: float = 600.0,
) -> ServingReport:
    """Export a module by ``torch.export``, call it in a fresh process that has only torch, compare the outputs.

    Args:
        module: any module; it is in eval mode meanwhile.
        example: inputs of ``forward``: a tensor, a tuple of several, or a dict by name; default:
            ``module.example_input_array``.
        dynamic_shapes: which sizes may differ, as ``torch.export.export`` takes it.
        repeats: calls that are timed.
        rtol: how far outputs may differ, relative to their size.
        atol: how far they may differ besides.
        timeout: seconds after which the process is given up.

    Raises:
        ConfigError: without an example; for a module that cannot be exported, does not run there, or has other outputs
            there.
    """
    given = example if example is not None else getattr(module, "example_input_array", None)
    kind = type(module).__qualname__
    if given is None:
        raise ConfigError(
            f"check_serving needs inputs of {kind}.forward: check_serving(module, example), or set "
            "module.example_input_array.",
            code="LT230",
        )
    kwargs = given if isinstance(given, dict) else {}
    args = () if kwargs else tuple(given) if isinstance(given, (tuple, list)) else (given,)
    modes = [(part, part.training) for part in module.modules()]
    try:
        module.eval()
        with torch.no_grad():
            expected = tree_leaves(module(*args, **kwargs))
            program = torch.export.export(module, args, kwargs, dynamic_shapes=dynamic_shapes)
    except Exception as error:
        raise ConfigError(
            f"{kind} cannot be exported: {type(error).__name__}: {error}\nforward must be made of what torch.export "
            "follows: no data-dependent Python branches, no objects but tensors.",
            code="LT231",
        ) from error
    finally:
        for part, training in modes:
            part.training = training
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.pt2"
        torch.export.save(program, file)
        torch.save((args, kwargs), Path(folder) / "inputs.pt")
        command = [sys.executable, "-c", _SERVER, folder, str(repeats)]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=timeout, check=False)
        except subprocess.TimeoutExpired:
            raise ConfigError(
                f"{kind}, exported, had not answered in a fresh process after {timeout:g} seconds. Give it more: "
                "timeout=..., or make fewer calls: repeats=...",
                code="LT231",
            ) from None
        if done.returncode:
            raise ConfigError(
                f"{kind}, exported, fails in a fresh process:\n{done.stderr.strip()[-2000:]}", code="LT231"
            )
        outputs = torch.load(Path(folder) / "outputs.pt", weights_only=True)
        difference = _compared(kind, outputs, expected, rtol, atol)
        measured = json.loads(done.stdout.splitlines()[-1])
        return ServingReport(num_bytes=file.stat().st_size, largest_difference=difference, **measured)


def _compared(kind: str, outputs: list[Any], expected: list[Any], rtol: float, atol: float) -> float:
    """Return the largest difference.

    Raises:
        ConfigError: where it is too large.
    """
    try:
        torch.testing.assert_close(outputs, expected, rtol=rtol, atol=atol, equal_nan=True)
    except AssertionError as error:
        raise ConfigError(f"{kind}, exported, has other outputs than here: {error}", code="LT232") from None
    pairs = [pair for pair in zip(outputs, expected, strict=True) if isinstance(pair[0], torch.Tensor)]
    return max((float((a.double() - b.double()).abs().max()) for a, b in pairs if a.numel()), default=0.0)


class ServingCheck(Callback):
    """Checks before training that the module serves (:func:`check_serving`), so that it does not turn out after a week.

    Args:
        example: inputs of ``forward``; default: the module's ``example_input_array``.
        options: further arguments of :func:`check_serving`.
    """

    def __init__(self, example: Any = None, **options: Any) -> None:
        self.example, self.options = example, options
        self.report: ServingReport | None = None

    def on_train_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Export, load and compare, on rank 0."""
        if not trainer.is_global_zero:
            return
        if trainer.strategy.capabilities.sharded_parameters:
            raise ConfigError(
                f"ServingCheck: strategy {trainer.strategy.name!r} shards the parameters, so that no rank can export "
                "the module. Check it before fit: check_serving(module, example).",
                code="LT230",
            )
        given = self.example if self.example is not None else pl_module.example_input_array
        example = None
        if given is not None:
            example = trainer.precision_plugin.convert_input(trainer.strategy.to_device(given))
        self.report = check_serving(pl_module, example, **self.options)
        trainer.print(f"{type(pl_module).__qualname__} {self.report}.")
