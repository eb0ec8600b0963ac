"""The module of a run, and its loaders: from arguments, the datamodule or the module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any, Self

from torch import Tensor, nn

from lt_core.data import DataSource, each_loader
from lt_core.data_setup import SetupDraws, draws_repeated
from lt_core.errors import ConfigTypeError
from lt_core.files.checkpoint_header import Contents
from lt_core.hparams import HyperparametersMixin, saved_hparams
from lt_core.interface import is_overridden
from lt_core.module import LightningModule
from lt_core.ranks import Ranks
from lt_core.seed import capture_generators, preserve_generators, restore_generators, seeding, states_beside
from lt_core.states import Stage
from lt_loops.arguments.problems import shown, type_name
from lt_loops.state.origin import Saved, StateDict
from lt_loops.state.position import Position
from lt_loops.state.unsaved import Unsaved


class Loaders:
    """The user's loaders by kind (``train``, ``validate``, ``test``, ``predict``), asked for when they are needed.

    Arguments of ``fit`` and the others come first, then the datamodule, then the module's own methods.

    Attributes:
        epochs: the epoch in which the loaders of a kind were asked for, by kind.
        generators: the random generators before that, where the user's method drew from them.
    """

    def __init__(self, module: LightningModule, datamodule: DataSource | None = None, **given: Any) -> None:
        """Note where loaders may come from; ``given`` holds arguments by kind."""
        self.module, self.datamodule = module, datamodule
        self.given = {kind: value for kind, value in given.items() if value is not None}
        self.asked: dict[str, Any] = {}
        self.epochs: dict[str, int] = {}
        self.generators: dict[str, StateDict] = {}
        self._held: list[SetupDraws] = []

    def __getstate__(self) -> StateDict:
        """Leave out loaders that a method was asked for: it is asked again."""
        return {**vars(self), "asked": {}}

    @classmethod
    def of_call(cls, stage: str, module: LightningModule, datamodule: Any, given: dict[str, Any]) -> Self:
        """Return the loaders of a call of the Trainer's methods; ``given`` holds its arguments by kind.

        Raises:
            ConfigTypeError: for another object than a datamodule, or loaders beside one.
        """
        main = next(iter(given))
        if datamodule is None and isinstance(given[main], DataSource):
            given, datamodule = {**given, main: None}, given[main]
        if datamodule is not None and not isinstance(datamodule, DataSource):
            raise ConfigTypeError(
                f"datamodule={shown(datamodule)}: expected a LightningDataModule instance, received "
                f"{type_name(datamodule)}. Loaders are passed as dataloaders= (train_dataloaders= in fit).",
                code="LT133",
            )
        both = [kind for kind, value in given.items() if value is not None]
        if datamodule is not None and both:
            raise ConfigTypeError(
                f"{stage}() got both loaders ({', '.join(both)}) and a datamodule. Pass one of the two.", code="LT134"
            )
        return cls(module, datamodule, **given)

    def has(self, kind: str) -> bool:
        """Return whether there are loaders of ``kind``, without making them; an empty list says that there are none."""
        if kind in self.given:
            return bool(each_loader(self.given[kind]))
        return self.owner_of(Stage(kind).loader) is not None

    def get(self, kind: str) -> Any:
        """Return the loaders of ``kind`` as the user gave them; methods are asked once, until :meth:`forget`."""
        if kind in self.given:
            return self.given[kind]
        if kind not in self.asked:
            owner = self.owner_of(name := Stage(kind).loader)
            self.asked[kind] = None if owner is None else getattr(owner, name)()
        return self.asked[kind]

    def as_first_asked(self, kind: str, position: Position) -> Any:
        """Return the loaders of ``kind``, asked for in the epoch, and with the random generators, of the first time.

        So a resumed run asks like the first one, and random draws of making loaders change nothing else.
        """
        before = self.generators.get(kind)
        with position.as_in(self.epochs.setdefault(kind, position.epoch)):
            if before is not None:
                with preserve_generators():
                    restore_generators(before)
                    return self.get(kind)
            before = capture_generators()
            found = self.get(kind)
            if states_beside(before):
                self.generators[kind] = before
            return found

    def forget(self, kind: str) -> None:
        """Ask the method again next time (``reload_dataloaders_every_n_epochs``)."""
        self.asked.pop(kind, None)
        self.epochs.pop(kind, None)
        self.generators.pop(kind, None)

    @contextmanager
    def setting_up(self, source: DataSource, ranks: Ranks) -> Iterator[None]:
        """Have ``source.setup`` draw as it first did if it may split data; seeding counts from :meth:`release` on."""
        if source is not self.datamodule and not any(is_overridden(source, of.loader, DataSource) for of in Stage):
            yield  # a module that makes layers
            return
        with draws_repeated(source, ranks):
            yield
        draws = SetupDraws.of(source)
        if draws is not None and draws.seeding is not None:  # else a run around this one holds it
            draws.seeding = None
            self._held.append(draws)

    def release(self) -> None:
        """Have ``setup`` draw anew after the next seeding: the run is over."""
        for draws in self._held:
            draws.seeding = seeding()

    def setup_draws(self) -> StateDict:
        """Return where the setups of this run began to draw, as plain data."""
        found = {"datamodule": SetupDraws.of(self.datamodule), "module": SetupDraws.of(self.module)}
        return {name: draws.generators for name, draws in found.items() if draws is not None}

    def take_setup_draws(self, found: Mapping[str, Any]) -> None:
        """Have setups draw from where another process did."""
        for name, generators in found.items():
            SetupDraws(generators).keep(getattr(self, name))

    def state(self, contents: Contents, unsaved: Unsaved) -> StateDict:
        """Return where setups draw, the datamodule's hyperparameters, and its state where that is wanted."""
        source, draws = self.datamodule, self.setup_draws()
        found: StateDict = {"setup_draws": draws} if draws else {}
        if isinstance(source, HyperparametersMixin):
            found |= saved_hparams(source, "datamodule_", objects=unsaved.objects)
        if source is not None and hasattr(source, "state_dict") and not contents.weights_only:
            name = type(source).__qualname__
            state = unsaved.optional(f"the state of {name}", source.state_dict)
            found |= {name: state} if state else {}
        return found

    def call_save_hook(self, tree: StateDict, unsaved: Unsaved) -> None:
        source = self.datamodule
        if source is not None and hasattr(source, "on_save_checkpoint"):
            hook = partial(source.on_save_checkpoint, tree)
            unsaved.optional(f"on_save_checkpoint of {type(source).__qualname__}", hook)

    def call_load_hook(self, saved: Saved) -> None:
        if self.datamodule is not None and hasattr(self.datamodule, "on_load_checkpoint"):
            self.datamodule.on_load_checkpoint(saved.tree)

    def load(self, saved: Saved) -> None:
        """Load the datamodule's state, and have loaders be asked for as in an earlier run."""
        source, name = self.datamodule, type(self.datamodule).__qualname__
        if source is not None and hasattr(source, "load_state_dict") and name in saved.tree:
            source.load_state_dict(saved.tree[name])
        self.epochs.update(saved.shared.get("loaders", {}))
        self.generators.update(saved.own.get("loaders", {}))

    def owner_of(self, method: str) -> DataSource | None:
        """Return the datamodule or the module, whichever comes first to define this method; None where neither does."""
        owners = (self.datamodule, self.module)
        return next((own for own in owners if own is not None and is_overridden(own, method, DataSource)), None)


def module_of(model: Any, stage: str) -> tuple[LightningModule, dict[str, Any] | None]:
    """Return the user's module, and the arguments of ``torch.compile(module, ...)``; None where it is not compiled.

    Raises:
        ConfigTypeError: for anything else, or a module that was not made whole.
    """
    inner = getattr(model, "_orig_mod", None)
    if isinstance(model, nn.Module) and isinstance(inner, LightningModule):
        return inner, _compiled_by(model)
    text = f"{stage}(model=...) expected a LightningModule, got a {type(model).__name__}."
    if isinstance(model, LightningModule):
        if "_modules" in vars(model):
            return model, None
        text = f"{type(model).__name__}.__init__ did not call super().__init__(), which must come first in it."
    elif isinstance(model, type):
        text = f"{stage}(model=...) expected a LightningModule, got the class {model.__name__}: pass an instance."
    elif isinstance(model, nn.Module):
        text += " Write one around it, or have lt-recipes do so: lt_recipes.Supervised(net, loss=..., optimizer=...)."
    raise ConfigTypeError(text, code="LT131")


def _compiled_by(model: Any) -> dict[str, Any]:
    """Return the arguments of ``torch.compile(model)``; inductor's mode and options are in its backend object."""
    context = model.dynamo_ctx
    backend = context.callback
    while hasattr(backend, "_torchdynamo_orig_backend") or hasattr(backend, "_torchdynamo_orig_callable"):
        inner = getattr(backend, "_torchdynamo_orig_backend", None)  # torch 2.9 calls it by the second name alone
        backend = backend._torchdynamo_orig_callable if inner is None else inner
    return {"backend": backend, "dynamic": context._dynamic, "fullgraph": bool(getattr(context, "fullgraph", False))}


def checked_loaders(given: Any, kind: str) -> list[Any]:
    """Return the flat list of loaders to validate, test or predict on.

    Raises:
        ConfigTypeError: for one from which no batches can be read.
    """
    loaders = each_loader(given)
    for loader in loaders:
        check_loader(loader, kind)
    return loaders


def check_loader(loader: Any, kind: str) -> None:
    """Refuse a class, a module, a datamodule in the wrong place, and objects without iteration."""
    for part in loader if isinstance(loader, (list, tuple)) else ():
        if isinstance(part, (DataSource, type)):
            check_loader(part, kind)
    if isinstance(loader, DataSource):
        got = f"the datamodule {type(loader).__name__}. Pass it as datamodule=."
    elif isinstance(loader, type):
        got = f"the class {loader.__name__}. Pass an instance: {loader.__name__}(...)."
    elif isinstance(loader, (str, bytes, nn.Module, int, float, Tensor)):
        got = f"{shown(loader)} ({type(loader).__name__})."
    elif isinstance(loader, Mapping) or hasattr(loader, "__iter__") or hasattr(loader, "__getitem__"):
        return
    else:
        got = f"{type_name(loader)}, which cannot be iterated.{' Call it.' * callable(loader)}"
    argument = {"train": "train_dataloaders", "validate": "val_dataloaders"}.get(kind, "dataloaders")
    raise ConfigTypeError(
        f"{argument}: expected a DataLoader or another iterable of batches (or a list or dict of them), got {got}",
        code="LT405",
    )
