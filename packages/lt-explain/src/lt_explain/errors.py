"""Frequent errors of torch and Python in a run, explained."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from traceback import walk_tb
from typing import Any

import torch
from torch.optim import Optimizer

from lt_core.errors import did_you_mean
from lt_core.module import LightningModule
from lt_core.states import Stage


def explain_error(
    error: BaseException, module: LightningModule, optimizers: list[Optimizer], describe_anomaly: Callable[[], str]
) -> None:
    """Explain frequent errors of torch and Python: in a note, or in place of their text.

    Args:
        error: that ended a run.
        module: the run's.
        optimizers: the run's.
        describe_anomaly: returns where the loss or a gradient stopped to be finite.
    """
    text, who = str(error), type(module).__name__
    if isinstance(error, RuntimeError) and "returned nan values" in text:
        error.add_note(f"lt: {describe_anomaly()} [LT341]")
    usual = isinstance(error, RuntimeError | TypeError | AttributeError) or type(error) is Exception
    for sign, meaning in _MEANINGS.items():
        if usual and sign in text:
            error.add_note(f"lt: {meaning}")
    _note_missing_closure(optimizers, error)
    lost = isinstance(error, RuntimeError) and "does not require grad and does not have a grad_fn" in text
    names = {frame.f_code.co_name for frame, _ in walk_tb(error.__traceback__)} if lost else set()
    own = [stage.step for stage in Stage if stage.step in names and module.automatic_optimization]
    if own:  # a step has called backward or autograd.grad itself
        if own[0] != Stage.TRAIN.step:
            error.add_note(f"lt: {own[0]} runs without gradients. Compute them in torch.enable_grad(). [LT307]")
    elif lost:
        frozen = not any(parameter.requires_grad for parameter in module.parameters())
        why = (
            "All its parameters are frozen (requires_grad=False): unfreeze those that are to be trained"
            if frozen
            else "It was detached (.detach(), .data, .item(), .numpy()), made from a number, computed under "
            "torch.no_grad() or by what has no gradient (argmax, a comparison), or its parameters are frozen"
        )
        error.args = (f"{who}: no parameter leads to the loss of training_step. {why}. torch says: {text} [LT307]",)
    if isinstance(error, TypeError) and (found := re.match(r"ModuleBase\.(\w+)\(\) (.*?)(\. Did|$)", text)):
        takes = list(inspect.signature(getattr(type(module), found[1])).parameters)[1:]
        slip = re.search(r"unexpected keyword argument '(\w+)'", text)
        meant = did_you_mean(slip[1], takes) if slip else ""  # Python 3.13's own suggestion was cut off
        error.args = (f"{who}: self.{found[1]}() {found[2]}.{meant} It takes {', '.join(takes)}. [LT505]",)


def _note_missing_closure(optimizers: list[Optimizer], error: BaseException) -> None:
    """Say where an optimizer that is not torch's failed without the closure that its ``step`` leaves optional."""
    for frame, _ in walk_tb(error.__traceback__):
        owner, closure = frame.f_locals.get("self"), frame.f_locals.get("closure", frame)
        if frame.f_code.co_name != "step" or closure is not None or all(owner is not o for o in optimizers):
            continue
        kind: Any = type(owner)
        if kind.step.__module__.partition(".")[0] != "torch" and not isinstance(error, torch.OutOfMemoryError):
            error.add_note(
                f"lt: {kind.__name__}.step was called without a closure, which is optional there. Where it needs one, "
                "write needs_closure = True in its class or in the module. [LT310]"
            )


_MEANINGS = {
    "nference tensor": "validate(), test() and predict() run in inference mode; a tensor that the module made there "
    "and kept (a cached table, a mask) cannot be trained with. Make it in __init__ or drop it afterwards, or take "
    "Trainer(inference_mode=False). [LT226]",
    "log_outside_the_graph": "torch.compile(..., fullgraph=True) lets nothing leave the graph, and what self.log takes "
    "does. Have lt compile the step: Trainer(compile={'fullgraph': True}) logs when the graph is done. [LT343]",
    "not in train mode when step": "the optimizer is told when its weights are evaluated and saved: add ScheduleFree() "
    "of lt.callbacks to Trainer(callbacks=...). [LT129]",
    "numpy.ndarray": "a batch is handed on as its loader makes it, and here is an array where torch expects a tensor. "
    "Leave out collate_fn, so that torch makes tensors of arrays, or write torch.from_numpy(array).float(). [LT128]",
    "Trying to backward through the graph a second time": "a tensor of an earlier batch is part of this loss: detach() "
    "what is kept from one batch to the next. [LT308]",
    "must have the same dtype, but got Double and Float": "the batch is in 64 bits and the module in 32: convert the "
    "data (tensor.float(), numpy.float32), or take Trainer(precision='64-true'). [LT345]",
    "'aten::linalg_vector_norm' with arguments from the 'Sparse": "where gradients are clipped, sparse ones "
    "(Embedding(sparse=True)) cannot be: take sparse=False, or clip the others in configure_gradient_clipping. [LT346]",
    "DataLoader worker (pid": "a loader worker died. What it said stands above; if nothing, often the machine or the "
    "container has no memory left. DataLoader(num_workers=0) shows what else it was. [LT412]",
}
