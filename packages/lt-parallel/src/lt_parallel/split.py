"""Splitting layers over ranks by a plan: torch's own styles, or the plan that a model of transformers brings."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

from torch import nn
from torch.distributed.device_mesh import DeviceMesh
from torch.distributed.tensor import Replicate, Shard
from torch.distributed.tensor.parallel import ColwiseParallel, ParallelStyle, RowwiseParallel, parallelize_module

from lt_core.errors import ConfigError, did_you_mean
from lt_parallel.materialize import carry_hooks


def split_layers(
    module: nn.Module, mesh: DeviceMesh, plan: Mapping[str, ParallelStyle | str] | str, *, split_loss: bool
) -> None:
    """Split the layers that ``plan`` names over the ranks of ``mesh``, in place.

    Args:
        module: with all layers.
        mesh: of one dimension.
        plan: styles by the layers' names, in which ``*`` stands for any part between two dots: torch's, or their names
            in transformers; ``"auto"``: each model inside that brings a ``tp_plan`` is split by it.
        split_loss: leave the scores of a model with a ``tp_plan`` split by class, for torch's ``loss_parallel``.

    Raises:
        ConfigError: for a name that is no layer's, an unknown style, a model without a plan.
    """
    styles = _found_plans(module) if isinstance(plan, str) else dict(plan)
    names = [name for name, _ in module.named_modules()]
    for name, style in styles.items():
        found = [layer for layer in names if _matches(layer, name)]
        if not found:
            raise ConfigError(
                f"ModelParallel(parallelize=...): {name!r} is no layer of the module."
                f"{did_you_mean(name, [layer for layer in names if layer])}",
                code="LT781",
            )
        for layer in found:  # one by one: torch warns of a pattern where a layer beside them has no such part
            part = module.get_submodule(layer)
            whole = dict(part.named_parameters())
            parallelize_module(part, mesh, _style(name, style, split_loss=split_loss))
            for name_of_param, param in part.named_parameters():
                if (old := whole[name_of_param]) is not param:
                    carry_hooks(old, param)


def _matches(layer: str, pattern: str) -> bool:
    parts, wanted = layer.split("."), pattern.split(".")
    return len(parts) == len(wanted) and all(map(fnmatchcase, parts, wanted))


def _found_plans(module: nn.Module) -> dict[str, ParallelStyle | str]:
    """Return the ``tp_plan`` of each outermost module that has one, by names as seen from ``module``."""
    found: dict[str, ParallelStyle | str] = {}
    owners: list[str] = []
    for name, part in module.named_modules():
        plan = getattr(part, "tp_plan", None)
        if isinstance(plan, Mapping) and plan and not any(name.startswith(f"{owner}.") for owner in owners):
            owners.append(name)
            found |= {f"{name}.{layer}".lstrip("."): style for layer, style in plan.items()}
    if not found:
        raise ConfigError(
            "ModelParallel(parallelize='auto'): no part of the module brings a tp_plan, as models of transformers do. "
            "Name the layers: parallelize={'blocks.*.queries': ColwiseParallel(), ...}.",
            code="LT782",
        )
    return found


def _style(name: str, style: ParallelStyle | str, *, split_loss: bool) -> ParallelStyle:
    if isinstance(style, ParallelStyle):
        return style
    scores = (
        ColwiseParallel(output_layouts=Shard(-1), use_local_output=False)
        if split_loss
        else ColwiseParallel(output_layouts=Replicate())
    )
    known = {
        "colwise": ColwiseParallel(),
        "rowwise": RowwiseParallel(),
        "colwise_gather_output": scores,
        "colwise_rep": scores,  # its name until transformers 4.57
        "embedding_rowwise": RowwiseParallel(input_layouts=Replicate()),
    }
    if style not in known:
        raise ConfigError(
            f"ModelParallel(parallelize=...): {name!r} has the style {style!r}; expected an object of "
            f"torch.distributed.tensor.parallel, or one of {', '.join(known)}.{did_you_mean(style, known)}",
            code="LT783",
        )
    return known[style]
