"""What a run was asked for, and with what: it never changes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Protocol

from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.dialect import Policy
from lt_core.module import LightningModule
from lt_core.profiler import Profiler, by_action
from lt_core.trainer import TrainerAPI
from lt_loops.arguments.limits import Limits
from lt_loops.arguments.table import Settings
from lt_loops.setup.loaders import Loaders
from lt_loops.setup.parts import Parts


class Host(TrainerAPI, Protocol):
    """The Trainer as its runs know it: what hooks get."""

    @property
    def log_axis(self) -> str:
        """Where rows stand on the x axis of the loggers."""

    @property
    def state(self) -> Any:
        """What runs, in the words that ``setup`` and ``teardown`` get where the policy says so."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    """What to do with which module and which data; the Trainer makes it.

    Attributes:
        stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.
        module: the one that is called: the user's, or what a dialect has for it.
        given: the user's.
        limits: those of the ``settings`` that may change while the run goes on.
        ckpt_path: what to start from.
        word: the word that meant it; empty for a path, and for nothing.
        trusted: whether that file may run code as it is read.
        compile_options: for ``torch.compile`` of the training step; None: it is not compiled.
        policy: see the Trainer.
    """

    trainer: Host
    stage: str
    module: LightningModule
    given: LightningModule
    loaders: Loaders
    settings: Settings
    limits: Limits
    parts: Parts
    ckpt_path: str | None = None
    word: str = ""
    trusted: bool = False
    compile_options: dict[str, Any] | None = None
    policy: Policy

    @property
    def datamodule(self) -> DataSource | None:
        return self.loaders.datamodule

    @property
    def profiler(self) -> Profiler | None:
        """The profiler if the user asked for one."""
        return None if self.settings.profiler is None else by_action(self.parts.profiler)

    def inside(self, callbacks: list[Callback], loaders: Loaders) -> Job:
        """Return the same with other callbacks and loaders, and no logger."""
        parts = replace(self.parts, callbacks=callbacks, loggers=[])
        return replace(self, loaders=loaders, parts=parts, ckpt_path=None)
