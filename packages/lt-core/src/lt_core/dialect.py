"""Ways of another trainer: a package that understands them does so through a :class:`Dialect`, which has four doors.

lt itself knows today's names only. lt-compat speaks Lightning 1.x's; another package may speak another one.

**When a dialect is asked.** Installed is enough, and nothing that is right today is ever changed: a dialect is asked
where lt would otherwise raise an error (an unknown argument or a wrong value, an attribute that is not there, a
checkpoint without lt's own part, a hook whose signature does not fit), or where a name appears that the dialect has as
an entry point. Until then it is not imported. Other behavior than lt's own is a subclass of the Trainer with
another :class:`Policy`, which the user takes on purpose.

**How to write one.** Subclass :class:`Dialect`, override the methods that you need, and name the class (it is made
without arguments) in the group ``lt.compat``, once for each old name of a hook, of a parameter (``parameter.<name>``),
or of a key with a mapping in the result of a step (``output.<name>``); a dialect without such names has one entry point
with its own::

    [project.entry-points."lt.compat"]
    before_training = "mine.dialect:Mine"

    class Mine(Dialect):
        def arguments(self, where, given, problems):
            if where == "Trainer" and "num_epochs" in given:
                given["max_epochs"] = given.pop("num_epochs")
            return given

        def before_run(self, trainer, module, callbacks):
            return module, [*callbacks, Hooks()] if hasattr(module, "before_training") else callbacks

    class Hooks(Callback):
        def on_train_start(self, trainer, pl_module):
            pl_module.before_training()

Say each old spelling once, with today's, by :func:`lt_core.errors.warn` and ``LtDeprecationWarning``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from lt_core import plugins
from lt_core.callback import Callback
from lt_core.errors import ConfigError
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI

__all__ = [
    "NOT_MINE",
    "Dialect",
    "Policy",
    "attribute_of",
    "dialects",
    "spoken",
    "spoken_by",
]

Hook = Callable[..., Any]

NOT_MINE: Any = object()
"""The result of :meth:`Dialect.attribute` for an unknown name."""


class Dialect:
    """Understands the spellings of another trainer. The defaults understand nothing; all are called before a run or
    between its epochs, never in a step.
    """

    def arguments(self, where: str, given: dict[str, Any], problems: list[ConfigError]) -> dict[str, Any]:
        """Return the arguments of a call in today's names and values; unknown ones are left as they are.

        Asked when ``given`` has an argument that lt does not know, or a value that it would refuse; the result is
        checked as if the user had written it.

        Args:
            where: ``"Trainer"`` for the constructor, else the method: ``"fit"``, ``"validate"``, ``"test"``...
            given: the user's arguments by name; may be changed and returned.
            problems: gets an error for each contradiction, so that all mistakes of a call are reported together.
        """
        return given

    def attribute(self, owner: Any, name: str) -> Any:
        """Return the attribute ``name`` of ``owner``, which lt's has not; :data:`NOT_MINE` for others.

        Args:
            owner: the Trainer; its class for attributes of the class, such as class methods; a module for
                ``output.<name>``, whose value takes the result of ``training_step`` with a mapping under this name.
            name: without an underscore in front.

        Raises:
            AttributeError: with the way of today, for one that the dialect knows and cannot give.
        """
        return NOT_MINE

    def progress(
        self, tree: Mapping[str, Any], *, optimizers: int, batches: int | None, window: Callable[[int], int]
    ) -> tuple[int, int, int] | None:
        """Return where the run stood that wrote a file which is not lt's: the epoch to go on in, the batches of it that
        were done, the optimizer steps in all; None where the file does not say it.

        Args:
            tree: the file's content.
            optimizers: number of optimizers of the resumed run.
            batches: of an epoch; None where it is unknown.
            window: micro-batches of each optimizer step in an epoch.
        """
        return None

    def before_run(
        self, trainer: TrainerAPI, module: LightningModule | None, callbacks: Sequence[Callback]
    ) -> tuple[LightningModule | None, Sequence[Callback]]:
        """Return the module and the callbacks whose hooks a run calls in place of the user's.

        Asked where a method has a name of the dialect, or does not fit; again where callbacks have changed; and of a
        callback's hooks that see a checkpoint. The results are only called: ``trainer.lightning_module`` and
        ``trainer.callbacks`` stay the user's. A module is placed and trained too, so that it shares its parameters with
        the user's, and it may be pickled on its way to other processes. Callbacks keep their order; more may stand
        before and after them.

        Args:
            trainer: whose run it is.
            module: the user's; None where the Trainer has just been made.
            callbacks: the user's.
        """
        return module, callbacks


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """Behaviour of a class of Trainers. lt's own Trainer has the defaults, the Trainer of lt.compat has all as True.

    A subclass chooses by its attribute ``policy``, and may pickle with it::

        class MyTrainer(Trainer):
            policy = Policy(offers_closures=True)

    Attributes:
        loaders_before_hooks: the first epoch's iterator is made before ``on_train_start``, an evaluation's before
            ``on_validation_start``, so that random numbers are drawn in this order.
        stops_at_length: a training loader that gave as many batches as it has is not asked once more, so that its
            sampler draws nothing then.
        single_precision: logged values are numbers of 32 bits, and summed as such.
        repeated_names: a second value under one name, or callback with one state key, is a warning, no error; callbacks
            go on with a checkpoint's name that another one has written over.
        epochs_without_loss: an epoch of which no batch had a loss is a warning, no error.
        fills_by_place: optional parameters of hooks get arguments of other names whatever their default.
        full_windows: each loss is divided by the size of a full window, at the epoch's end and beside a batch without
            a loss too; a window in which no batch had a loss counts as a step, and moves schedulers that go by steps;
            in manual optimization ``global_step`` counts each optimizer's step, and the x axis of rows counts batches.
        schedules_by_batch: a scheduler's ``frequency`` counts the batches of an epoch, not optimizer steps.
        new_optimizers: a second ``fit`` of a module makes its optimizers anew.
        offers_closures: an optimizer whose step can take a closure gets it, unless it is torch's.
        own_words: ``setup`` and ``teardown`` get ``trainer.state.fn``.
    """

    loaders_before_hooks: bool = False
    stops_at_length: bool = False
    single_precision: bool = False
    repeated_names: bool = False
    epochs_without_loss: bool = False
    fills_by_place: bool = False
    full_windows: bool = False
    schedules_by_batch: bool = False
    new_optimizers: bool = False
    offers_closures: bool = False
    own_words: bool = False


# ---- who is installed ------------------------------------------------------------------------------------------------


def spoken() -> frozenset[str]:
    """Return the old names that installed dialects have as entry points; imports none of them."""
    return frozenset(plugins.names("compat"))


def dialects(names: Iterable[str] | None = None) -> list[Dialect]:
    """Return the installed dialects that have one of ``names`` as an entry point; None: all. Imports them.

    Raises:
        PluginError: when two packages have the same name, or importing one fails.
    """
    wanted = spoken() if names is None else spoken().intersection(names)
    kinds = dict.fromkeys(plugins.find("compat", name) for name in sorted(wanted))
    return [_made(kind) for kind in kinds if kind is not None]


def spoken_by(owner: object) -> set[str]:
    """Return the old names that methods of ``owner`` have."""
    return {name for name in spoken() if callable(getattr(owner, name, None))}


def attribute_of(owner: Any, name: str) -> Any:
    """Return the attribute that an installed dialect has for ``owner``, a Trainer or its class; else :data:`NOT_MINE`.

    Raises:
        AttributeError: of the dialect, with the way of today.
    """
    found = (dialect.attribute(owner, name) for dialect in (() if name.startswith("_") else dialects()))
    return next((value for value in found if value is not NOT_MINE), NOT_MINE)


@lru_cache
def _made(kind: type[Dialect]) -> Dialect:
    return kind()
