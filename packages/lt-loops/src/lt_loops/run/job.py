"""The request for a run, and the context that its owners share; neither is replaced during the run."""

from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

from lt_core.dialect import Policy
from lt_core.module import LightningModule
from lt_core.profiler import Profiler
from lt_core.trainer import TrainerAPI
from lt_loops.arguments.limits import Limits
from lt_loops.arguments.table import Settings
from lt_loops.logging.recorder import RunRecorder
from lt_loops.run.agenda import Agenda
from lt_loops.setup.loaders import Loaders
from lt_loops.setup.resolve import Parts
from lt_loops.state.position import Position


class Host(TrainerAPI, Protocol):
    """The Trainer as its runs know it, which hooks get."""

    @property
    def log_axis(self) -> str:
        """Where rows stand on the x axis of the loggers."""

    @property
    def state(self) -> Any:
        """The running method, in the words that ``setup`` and ``teardown`` get where the policy says so."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Job:
    """A request for a run: its module, its data, its settings; the Trainer makes it.

    Attributes:
        stage: ``"fit"``, ``"validate"``, ``"test"`` or ``"predict"``.
        module: the module that is called: the user's, or the one that a dialect puts in its place.
        given: the user's.
        limits: the ``settings`` that may change during the run.
        ckpt_path: the checkpoint to start from.
        word: the word that meant it; empty for a path, and for nothing.
        trusted: whether that file may run code as it is read.
        compile_options: for ``torch.compile`` of the training step; None: it is not compiled.
        policy: see the Trainer.
        profiler: if the user asked for one.
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
    profiler: Profiler | None


class Context(NamedTuple):
    """The context that the owners of a run share.

    Attributes:
        job: the request for the run.
        position: where it stands.
        agenda: the next batch at which something is due.
        recorder: the logged values.
    """

    job: Job
    position: Position
    agenda: Agenda
    recorder: RunRecorder


class Owner:
    """Holds a part of a run's state; :mod:`lt_loops.run.checkpoint` lists the parts that a checkpoint holds."""

    def __init__(self, context: Context) -> None:
        self._job = job = context.job
        self._position, self._agenda, self._recorder = context.position, context.agenda, context.recorder
        self._module, self._limits, self._settings = job.module, job.limits, job.settings
        self._strategy = job.parts.strategy
