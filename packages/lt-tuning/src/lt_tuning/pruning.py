"""Sets the least important weights to zero while training."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import prune

from lt_callbacks.arguments import choice
from lt_core.arguments import checks_arguments
from lt_core.callback import Callback
from lt_core.errors import ConfigError, did_you_mean
from lt_core.module import LightningModule
from lt_core.seed import preserve_generators
from lt_core.trainer import TrainerAPI

__all__ = ["ModelPruning"]

Parameters = Sequence[tuple[nn.Module, str]]

_METHODS: dict[str, tuple[type[prune.BasePruningMethod], Callable[..., nn.Module]]] = {
    "l1_unstructured": (prune.L1Unstructured, prune.l1_unstructured),
    "ln_structured": (prune.LnStructured, prune.ln_structured),
    "random_structured": (prune.RandomStructured, prune.random_structured),
    "random_unstructured": (prune.RandomUnstructured, prune.random_unstructured),
}
_STRUCTURED = ("ln_structured", "random_structured")
_CONTAINERS = (LightningModule, nn.Sequential, nn.ModuleList, nn.ModuleDict)


class ModelPruning(Callback):
    """Prunes weights with ``torch.nn.utils.prune``, at the end of each epoch or validation.

    Pruned weights stay in the module as ``weight_orig`` and ``weight_mask`` while it trains; checkpoints hold the plain
    ``weight`` (with ``make_pruning_permanent``), and masks and originals are in this callback's state, so that a resume
    is exact. All ranks prune alike. Random pruning leaves the global generators as they were.

    Args:
        pruning_fn: ``"l1_unstructured"``, ``"random_unstructured"``, ``"ln_structured"``, ``"random_structured"``, or a
            class of ``torch.nn.utils.prune``.
        parameters_to_prune: pairs of layer and parameter's name; None: ``parameter_names`` of all layers.
        parameter_names: names of parameters to prune; default ``["weight"]`` and ``["bias"]``.
        use_global_unstructured: compare weights over all layers, not layer by layer.
        amount: share (below 1.0) or number of weights to prune each time; or a function of the epoch that returns it, 0
            for none.
        apply_pruning: prune at all; or a function of the epoch.
        make_pruning_permanent: put plain weights in checkpoints, and in the module when training ends.
        use_lottery_ticket_hypothesis: after pruning give the weights left their first values again; or a function of
            the epoch.
        resample_parameters: give them newly sampled values instead.
        pruning_dim: dimension along which structured pruning cuts.
        pruning_norm: the norm of ``"ln_structured"``.
        verbose: 1 says the share that is pruned, 2 says it for each layer.
        prune_on_train_epoch_end: prune at the epoch's end; False: at validation's.

    Attributes:
        amount: as given; one that is set while it trains is the next epoch's.
        pruning_fn: the class of ``torch.nn.utils.prune``.

    Raises:
        ConfigError: for wrong values and combinations; at the start where there is nothing to prune.
    """

    PARAMETER_NAMES = ("weight", "bias")
    changes_weights = True

    @checks_arguments
    def __init__(
        self,
        pruning_fn: str | type[prune.BasePruningMethod],
        parameters_to_prune: Parameters | None = None,
        parameter_names: list[str] | None = None,
        use_global_unstructured: bool = True,
        amount: float | Callable[[int], int | float] = 0.5,
        apply_pruning: bool | Callable[[int], bool] = True,
        make_pruning_permanent: bool = True,
        use_lottery_ticket_hypothesis: bool | Callable[[int], bool] = True,
        resample_parameters: bool = False,
        pruning_dim: int | None = None,
        pruning_norm: int | None = None,
        verbose: int = 0,
        prune_on_train_epoch_end: bool = True,
    ) -> None:
        self.pruning_fn, self._lt_options = _read_method(pruning_fn, use_global_unstructured, pruning_dim, pruning_norm)
        self._lt_global = use_global_unstructured
        self.amount = amount if callable(amount) else _check_amount(amount)
        self._parameters_to_prune = None if parameters_to_prune is None else _pairs(parameters_to_prune)
        self._parameter_names = parameter_names or list(self.PARAMETER_NAMES)
        self._apply_pruning = apply_pruning
        self._lt_make_permanent = make_pruning_permanent
        self._lt_use_lottery = use_lottery_ticket_hypothesis
        self._lt_resample = resample_parameters
        self._verbose = verbose
        if verbose not in (0, 1, 2):
            raise ConfigError(f"ModelPruning(verbose={verbose}): expected 0, 1 or 2.", code="LT178")
        self._lt_at_epoch_end = prune_on_train_epoch_end
        self._lt_pruned: list[tuple[str, nn.Module, str]] = []
        self._lt_first_values: dict[str, Tensor] = {}
        self._lt_last_masks: dict[str, Tensor] = {}
        self._lt_trains = False

    # ---- state -------------------------------------------------------------------------------------------------------

    @property
    def state_key(self) -> str:
        """The class and the settings that make several of one run distinct."""
        given = self._parameters_to_prune
        return self._generate_state_key(
            pruning_fn=self.pruning_fn.__name__,
            amount=None if callable(self.amount) else self.amount,
            parameters=self._parameter_names if given is None else [f"{layer}.{name}" for layer, name in given],
        )

    def state_dict(self) -> dict[str, Any]:
        """Return masks, originals, first values, and the weights that torch ranks, which are the last forward's."""
        masked = [(key, layer, name) for key, layer, name in self._lt_pruned if _is_pruned(layer, name)]
        return {
            "masks": {key: getattr(layer, f"{name}_mask") for key, layer, name in masked},
            "originals": {key: getattr(layer, f"{name}_orig").detach() for key, layer, name in masked},
            "ranked": {key: getattr(layer, name).detach() for key, layer, name in masked},
            "first_values": dict(self._lt_first_values),
        }

    def on_load_checkpoint(self, trainer: TrainerAPI, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Let the module load plain weights; masks and originals follow when the optimizers are made."""
        for part in {"state_dict", "current_model_state"} & checkpoint.keys():  # the second one beside an average
            weights = checkpoint[part]
            for key in [name.removesuffix("_mask") for name in weights if name.endswith("_mask")]:
                if f"{key}_orig" in weights and key not in weights:
                    weights[key] = weights.pop(f"{key}_orig") * weights.pop(f"{key}_mask")

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._lt_first_values = dict(state_dict["first_values"])
        for key, layer, name in self._lt_pruned if self._lt_trains else ():  # a test has loaded plain weights
            if key not in state_dict["masks"]:
                continue
            device = getattr(layer, name).device
            prune.custom_from_mask(layer, name, state_dict["masks"][key].to(device))  # type: ignore[no-untyped-call]
            original = getattr(layer, f"{name}_orig")
            original.data.copy_(state_dict["originals"][key])
            ranked = state_dict.get("ranked", {}).get(key, original * getattr(layer, f"{name}_mask"))
            setattr(layer, name, ranked.to(device))

    def on_save_checkpoint(self, trainer: TrainerAPI, pl_module: LightningModule, checkpoint: dict[str, Any]) -> None:
        """Put plain weights in the file."""
        if not self._lt_make_permanent:
            return
        weights = dict(checkpoint["state_dict"])
        for key, layer, name in self._lt_pruned:
            if _is_pruned(layer, name) and f"{key}_orig" in weights:
                weights[key] = weights.pop(f"{key}_orig") * weights.pop(f"{key}_mask")
        checkpoint["state_dict"] = weights

    def begin_anew(self, trainer: TrainerAPI) -> None:
        self._lt_pruned, self._lt_first_values, self._lt_last_masks = [], {}, {}

    # ---- the run -----------------------------------------------------------------------------------------------------

    def setup(self, trainer: TrainerAPI, pl_module: LightningModule, stage: str) -> None:
        """Find the parameters to prune, and keep their first values."""
        self._lt_trains = stage == "fit"
        if not self._lt_trains:
            return
        self._lt_pruned = self._lt_find(pl_module)
        if not self._lt_pruned:
            raise ConfigError(
                f"ModelPruning found nothing to prune in {type(pl_module).__name__} (parameter_names="
                f"{self._parameter_names}). Name layers by parameters_to_prune.",
                code="LT178",
            )
        if self._lt_use_lottery and not self._lt_resample and not self._lt_first_values:
            values = ((key, getattr(layer, name).detach().clone()) for key, layer, name in self._lt_pruned)
            self._lt_first_values = dict(values)

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Go on with the masks of the fit that this one continues."""
        for key, layer, name in self._lt_pruned:
            if key in self._lt_last_masks and not _is_pruned(layer, name):
                prune.custom_from_mask(layer, name, self._lt_last_masks[key])  # type: ignore[no-untyped-call]

    def on_train_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        if self._lt_at_epoch_end:
            self._lt_run(trainer, trainer.current_epoch)

    def on_validation_epoch_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Prune, where validation's end is the moment."""
        if trainer.stage == "fit" and not trainer.sanity_checking and not self._lt_at_epoch_end:
            self._lt_run(trainer, trainer.current_epoch)

    def on_train_end(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        self._lt_last_masks = self.state_dict()["masks"]
        if self._lt_make_permanent:
            self.make_pruning_permanent(pl_module)

    def make_pruning_permanent(self, module: nn.Module | None = None) -> None:
        """Put ``weight`` in place of ``weight_orig`` and ``weight_mask``, in all layers, or in ``module``."""
        meant = None if module is None else {id(layer) for layer in module.modules()}
        for _, layer, name in self._lt_pruned:
            if _is_pruned(layer, name) and (meant is None or id(layer) in meant):
                prune.remove(layer, name)  # type: ignore[no-untyped-call]

    def filter_parameters_to_prune(self, parameters_to_prune: Parameters = ()) -> Parameters:
        """Return which pairs of layer and name to prune; override it to leave some out."""
        return parameters_to_prune

    def apply_pruning(self, amount: float) -> None:
        """Prune ``amount`` (a share or a number) of the weights that are left."""
        if self._lt_global:
            pairs = [(layer, name) for _, layer, name in self._lt_pruned]
            prune.global_unstructured(pairs, pruning_method=self.pruning_fn, amount=amount)
            return
        for _, layer, name in self._lt_pruned:
            self.pruning_fn.apply(layer, name, amount=amount, **self._lt_options)  # type: ignore[no-untyped-call]

    # ---- inside ------------------------------------------------------------------------------------------------------

    def _lt_run(self, trainer: TrainerAPI, epoch: int) -> None:
        apply, amount = self._apply_pruning, self.amount
        wanted = amount(epoch) if callable(amount) else amount
        if not (apply(epoch) if callable(apply) else apply) or not wanted:
            return
        before = self._lt_zeros()
        with _seeded(epoch):
            self.apply_pruning(_check_amount(wanted))
            lottery = self._lt_use_lottery(epoch) if callable(self._lt_use_lottery) else self._lt_use_lottery
            if lottery:
                self.apply_lottery_ticket_hypothesis()
        if self._verbose:
            self._lt_say(trainer, before)

    def apply_lottery_ticket_hypothesis(self) -> None:
        """Give weights the values that they had at first, or newly sampled ones; masks are kept."""
        if self._lt_resample:
            layers = {id(layer): layer for _, layer, _ in self._lt_pruned}
            for layer in layers.values():
                _redraw(layer)
            return
        for key, layer, name in self._lt_pruned:
            first = self._lt_first_values[key]
            live = getattr(layer, f"{name}_orig" if _is_pruned(layer, name) else name)
            live.data.copy_(first.to(live.device))

    def _lt_find(self, module: nn.Module) -> list[tuple[str, nn.Module, str]]:
        names = {id(layer): name for name, layer in module.named_modules()}
        given = self.sanitize_parameters_to_prune(module, self._parameters_to_prune or (), self._parameter_names)
        given = self.filter_parameters_to_prune(given)
        return [(f"{names[id(layer)]}.{name}".lstrip("."), layer, name) for layer, name in given]

    @staticmethod
    def sanitize_parameters_to_prune(
        pl_module: nn.Module, parameters_to_prune: Parameters = (), parameter_names: Sequence[str] = ()
    ) -> Parameters:
        """Return the checked pairs of layer and name; without any, ``parameter_names`` of all layers.

        Raises:
            ConfigError: for anything but a list of such pairs, for layers of another module, for unknown names.
        """
        if not parameters_to_prune:
            layers = [layer for layer in pl_module.modules() if not isinstance(layer, _CONTAINERS)]
            names = parameter_names or ModelPruning.PARAMETER_NAMES
            # a parametrized or pruned weight is a tensor that is no parameter any more
            found = [(each, name) for name in names for each in layers if isinstance(getattr(each, name, None), Tensor)]
            unknown = {*names}.difference(ModelPruning.PARAMETER_NAMES, (name for _, name in found))
            if found and unknown:  # without any the callback says so
                raise ConfigError(
                    f"ModelPruning(parameter_names={[*names]}): no layer of {type(pl_module).__name__} has a parameter "
                    f"named {' or '.join(map(repr, sorted(unknown)))}.",
                    code="LT178",
                )
            return found
        for layer, name in _pairs(parameters_to_prune):
            if not any(layer is each for each in pl_module.modules()):
                raise ConfigError(
                    f"ModelPruning(parameters_to_prune=...): {type(layer).__name__} is no layer of "
                    f"{type(pl_module).__name__}.",
                    code="LT178",
                )
            if not isinstance(getattr(layer, name, None), Tensor):
                has = [each for each, _ in layer.named_parameters(recurse=False)]
                raise ConfigError(
                    f"ModelPruning(parameters_to_prune=...): {type(layer).__name__} has no parameter {name!r}; it has "
                    f"{', '.join(has) or 'none'}.{did_you_mean(str(name), has)}",
                    code="LT178",
                )
        return parameters_to_prune

    def _lt_zeros(self) -> dict[str, tuple[int, int]]:
        return {
            key: (int((getattr(layer, f"{name}_mask") == 0).sum()), getattr(layer, name).numel())
            for key, layer, name in self._lt_pruned
            if _is_pruned(layer, name)
        }

    def _lt_say(self, trainer: TrainerAPI, before: dict[str, tuple[int, int]]) -> None:
        now = self._lt_zeros()
        zeros, total = (sum(column) for column in zip(*now.values(), strict=True))
        was = sum(count for count, _ in before.values())
        trainer.print(f"Pruned {was}/{total} ({was / total:.2%}) -> {zeros}/{total} ({zeros / total:.2%})")
        if self._verbose > 1:
            for key, (count, size) in now.items():
                trainer.print(f"  {key}: {before.get(key, (0, size))[0]}/{size} -> {count}/{size} ({count / size:.2%})")


def _read_method(
    given: str | type[prune.BasePruningMethod], everywhere: bool, dim: int | None, norm: int | None
) -> tuple[type[prune.BasePruningMethod], dict[str, Any]]:
    if isinstance(given, type) and issubclass(given, prune.BasePruningMethod):
        name, method = "", given
    else:
        named = given.lower() if isinstance(given, str) else given
        name = choice("ModelPruning", "pruning_fn", named, _METHODS)
        method = _METHODS[name][0]
    if everywhere and getattr(method, "PRUNING_TYPE", None) != "unstructured":
        raise ConfigError(
            f"ModelPruning(pruning_fn={given!r}) cuts whole rows of a layer: take use_global_unstructured=False.",
            code="LT178",
        )
    options: dict[str, Any] = {}
    if name in _STRUCTURED:
        if dim is None:
            raise ConfigError(f"ModelPruning(pruning_fn={name!r}) needs pruning_dim, such as 0.", code="LT178")
        options["dim"] = dim
    if name == "ln_structured":
        if norm is None:
            raise ConfigError("ModelPruning(pruning_fn='ln_structured') needs pruning_norm, such as 2.", code="LT178")
        options["n"] = norm
    return method, options


def _check_amount(amount: float) -> int | float:
    given: object = amount
    share = isinstance(given, float) and 0.0 <= given <= 1.0
    count = isinstance(given, int) and not isinstance(given, bool) and given >= 0
    if not (share or count):
        raise ConfigError(
            f"ModelPruning(amount={amount!r}): expected a share from 0.0 to 1.0, or a number of weights.", code="LT178"
        )
    return amount


def _pairs(given: Parameters) -> Parameters:
    """Return pairs of layer and parameter's name.

    Raises:
        ConfigError: for anything else.
    """
    for pair in given:
        if not (isinstance(pair, (tuple, list)) and len(pair) == 2 and isinstance(pair[0], nn.Module)):
            raise ConfigError(
                "ModelPruning(parameters_to_prune=...): expected pairs of layer and parameter's name, such as "
                f"(model.layer, 'weight'), got {pair!r:.80}.",
                code="LT178",
            )
    return given


def _is_pruned(layer: nn.Module, name: str) -> bool:
    return hasattr(layer, f"{name}_mask")


@contextmanager
def _seeded(epoch: int) -> Iterator[None]:
    """Use the same random numbers on all ranks, and leave the global generators as they were."""
    with preserve_generators():
        torch.manual_seed(epoch)
        yield


def _redraw(layer: nn.Module) -> None:
    """Initialize a layer again, through the originals where it is pruned."""
    reset = getattr(layer, "reset_parameters", None)
    if reset is None:
        return
    fresh = dict(layer.named_parameters(recurse=False))
    masked = {name.removesuffix("_orig"): p for name, p in fresh.items() if name.endswith("_orig")}
    plain = {name: getattr(layer, name) for name in masked}
    for name, parameter in masked.items():
        delattr(layer, name)
        layer.register_parameter(name, parameter)
    reset()
    for name in masked:
        del layer._parameters[name]
        setattr(layer, name, plain[name])
