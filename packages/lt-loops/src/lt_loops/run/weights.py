"""The module of a run as its strategy has placed it: weights, hyperparameters, the strategy's own state."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from lt_core import plugins
from lt_core.errors import warn
from lt_core.files.checkpoint_header import Contents
from lt_core.hparams import saved_hparams, settle_hparams
from lt_core.loading.from_checkpoint import check_left_out, load_state_dict_strictly
from lt_loops.run.job import Context, Owner
from lt_loops.setup.hooks import defines
from lt_loops.state.origin import Saved, StateDict, own_copy
from lt_loops.state.unsaved import Unsaved


class Weights(Owner):
    """Holds the module, and saves and loads it by way of the strategy.

    Attributes:
        model: the module as the strategy set it up.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self.model: nn.Module = context.job.module
        self._saved: Saved | None = None  # for weights that are loaded once the module is placed

    def placed(self, model: nn.Module) -> None:
        """Use the model as the strategy has set it up; load weights that had to wait for it."""
        self.model = model
        saved, self._saved, module = self._saved, None, self._module
        if saved is None:
            return
        weights = saved.tree["state_dict"]
        if self._strategy.capabilities.sharded_parameters:
            left_out = saved.tree.get("left_out", ())
            check_left_out(module, weights, left_out, saved.path)
            strict = module.strict_loading and not left_out
            self._strategy.load_module_state(model, weights, strict=strict)
            return
        # in float64, which the module had not before its precision converted it
        for name, value in module.state_dict().items():
            kept = weights.get(name)
            if isinstance(value, Tensor) and isinstance(kept, Tensor) and value.dtype == kept.dtype == torch.float64:
                value.copy_(kept)

    # ---- out ---------------------------------------------------------------------------------------------------------

    def state(self, unsaved: Unsaved) -> StateDict:
        weights = self._strategy.module_state(self.model)
        return {"state_dict": weights, **saved_hparams(self._module, objects=unsaved.objects)}

    def complete(self, tree: StateDict, contents: Contents, unsaved: Unsaved) -> None:
        """Call the module's hook, then leave out the weights that are not wanted."""
        module = self._module
        if defines(module, "on_save_checkpoint"):
            unsaved.optional("on_save_checkpoint of the module", lambda: module.on_save_checkpoint(tree))
            if not unsaved.objects:
                settle_hparams(tree, module)
        if contents.trainable_only or contents.exclude:
            tree["state_dict"] = dict(tree["state_dict"])
            leave_out = plugins.load("defaults", "leave_out")
            tree["left_out"] = leave_out(tree["state_dict"], module, contents.trainable_only, contents.exclude)

    # ---- in ----------------------------------------------------------------------------------------------------------

    def load(self, saved: Saved) -> None:
        """Call the module's hook and load the weights; if they are spread over ranks, once the strategy has set up."""
        module, self._saved = self._module, saved
        if defines(module, "on_load_checkpoint"):
            module.on_load_checkpoint(saved.tree)
        if not self._strategy.capabilities.sharded_parameters:
            load_state_dict_strictly(
                module,
                saved.tree["state_dict"],
                saved.path,
                strict=module.strict_loading,
                left_out=saved.tree.get("left_out", ()),
                hparams=saved.tree.get("hyper_parameters"),
            )

    def load_strategy(self, saved: Saved) -> None:
        """Load the strategy's state for this rank; warn of changed hyperparameters."""
        strategy, own = self._strategy, saved.own.get("strategy")
        before, given = saved.tree.get("hyper_parameters") or {}, dict(self._module.hparams)
        changed = [name for name in before if name in given and _is_other(before[name], given[name])]
        if changed:
            shown = ", ".join(f"{name} was {before[name]!r} and is {given[name]!r}" for name in changed[:5])
            shown += "..." if len(changed) > 5 else ""
            warn(
                f"{saved.path} resumes with other hyperparameters: {shown}. The model has the new ones; "
                "weights, optimizer (its learning rate too), schedulers and position come from the file. "
                "To begin anew with its weights: load_from_checkpoint, and fit without ckpt_path.",
                code="LT618",
            )
        if saved.same_ranks and own:
            strategy.load_state_dict(own_copy(own))
        elif not saved.same_ranks and any(state.get("strategy") for state in saved.by_rank):
            warn(
                f"{saved.path} was saved on {len(saved.by_rank)} ranks and goes on with {strategy.world_size}: what "
                f"strategy {strategy.name!r} keeps for each rank begins anew. Resume on as many ranks for the same "
                "numbers.",
                code="LT619",
            )


@contextmanager
def tensors_lent(module: nn.Module) -> Iterator[None]:
    """Begin without gradients; at the end put them back, and the tensors' device and number format.

    For a run inside a hook of another one, whose optimizers go on with the same parameters: it may work elsewhere.
    """
    gradients = [(parameter, parameter.grad) for parameter in module.parameters()]
    places = [(slots, name, tensor, tensor.data) for slots, name, tensor in _slots(module)]
    for parameter, _ in gradients:
        parameter.grad = None
    try:
        yield
    finally:
        for slots, name, tensor, data in places:
            now = slots.get(name)
            if now is not None and (now.dtype, now.device) != (data.dtype, data.device):
                same = torch.equal(data.to(now), now)
                tensor.data = data if same else data.copy_(now.detach())
                slots[name] = tensor
        for parameter, gradient in gradients:
            parameter.grad = gradient
        for part in module.modules():
            part.__dict__.pop("_device", None)  # which a LightningModule keeps


def _slots(module: nn.Module) -> Iterator[tuple[dict[str, Any], str, Tensor]]:
    """Yield each parameter and buffer with where it stands, of shared ones each place."""
    for part in module.modules():
        for slots in (part._parameters, part._buffers):
            yield from ((slots, name, tensor) for name, tensor in slots.items() if tensor is not None)


def _is_other(one: Any, other: Any) -> bool:
    if isinstance(one, Tensor):  # arrays of numpy are tensors in the file
        mine = other if isinstance(other, Tensor) else torch.tensor(other) if hasattr(other, "__array__") else None
        return mine is None or one.shape != mine.shape or not torch.equal(one.cpu(), mine.cpu().to(one.dtype))
    plain = (bool, int, float, str, type(None))
    # the last condition: NaN is no other value than NaN
    return isinstance(one, plain) and isinstance(other, plain) and one != other and not (one != one and other != other)


def beyond_weights(module: nn.Module) -> StateDict:
    """Return what a state dict leaves out: the mode and the other buffers of each part, and what is trained."""
    parts: StateDict = {}
    for name, part in module.named_modules():
        others = {leaf: part._buffers[leaf] for leaf in part._non_persistent_buffers_set}
        plain = {leaf: buffer.detach() for leaf, buffer in others.items() if type(buffer) is Tensor}
        parts[name] = (part.training, plain)
    return {"parts": parts, "trained": {name: param.requires_grad for name, param in module.named_parameters()}}
