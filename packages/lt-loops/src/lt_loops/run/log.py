"""The way of metrics to the loggers, and when; a logger that fails never ends a run."""

from collections import deque
from collections.abc import Callable
from typing import Any

from lt_core import plugins
from lt_core.arguments import matched
from lt_core.callback import Callback
from lt_core.data import DataSource
from lt_core.duration import Duration, Every
from lt_core.errors import ConfigError, LogError, did_you_mean, from_signal_handler, recording, warn
from lt_core.hparams import HyperparametersMixin, logged_hparams
from lt_core.interface import is_overridden
from lt_core.logger import Logger
from lt_core.module import LightningModule
from lt_core.profiler import Profiler
from lt_core.terminal import waiting
from lt_loops.logging.merged_sums import merged_sums
from lt_loops.logging.shared_steps import SharedSteps
from lt_loops.logging.slot import as_number
from lt_loops.run.elapsed import Elapsed, counted_by
from lt_loops.run.history import History
from lt_loops.run.job import Context, Owner
from lt_loops.setup.hooks import Hook, HookCalls, defines
from lt_loops.state.origin import Saved, StateDict
from lt_loops.state.position import NEVER
from lt_loops.state.unsaved import Unsaved

AXES = ("step", "epoch", "samples", "tokens")
"""Values of ``trainer.log_axis`` beside logged names."""

_KEPT_ROWS = 10_000
"""Rows kept for a logger that fails, to be sent when it works again."""


class Log(Owner):
    """Sends values to all loggers, on rank 0, and knows when a row of step values is due.

    A logger's exception is reported once (LT520); its rows are kept and sent again later. A row that it refuses
    (LogError) is dropped, as it would be refused again.

    Attributes:
        active: whether there are loggers, on any rank.
        file_at: step and epoch of a checkpoint that is evaluated without a fit before it, where its rows stand.
    """

    def __init__(self, context: Context, elapsed: Elapsed, history: History | None, profiler: Profiler | None) -> None:
        """Send to the Trainer's loggers; ranks other than 0 send nothing.

        A ``history`` gets the same rows, and asks for none; a run that does not train has none. ``profiler`` measures
        what is sent as ``"logging"``.
        """
        super().__init__(context)
        self._rows, self._history, self._elapsed = context.job.trainer, history, elapsed
        self._every: Every | tuple[str, int] | None = None
        self._row_step = 0
        self._all: list[Logger] = list(context.job.parts.loggers)
        self.active = bool(self._all)
        # to which this rank sends; first those that keep rows, as another one may never return
        self._loggers = [] if self._recorder.rank else sorted(self._all, key=lambda logger: not logger.takes_tensors)
        self.send = self._send if profiler is None else profiler.wrap("logging", self._send)
        self.file_at = (0, 0)
        self._kept: dict[int, deque[dict[str, Any]]] = {id(each): deque(maxlen=_KEPT_ROWS) for each in self._loggers}
        self._reported: set[tuple[object, ...]] = set()

    def __getstate__(self) -> StateDict:
        """Leave out the profiler's measurement, which cannot be copied."""
        return {**vars(self), "send": self._send}

    def begin_fit(self, run: str) -> None:
        """Have loggers begin anew that served another fit; one in whose middle this begins keeps its own."""
        for logger in self._all:
            if logger._lt_in_fit:
                continue
            if logger._lt_fitted_in not in ("", run):
                self.guarded(logger, logger.begin_anew)
            logger._lt_fitted_in, logger._lt_in_fit = run, True

    def end_fit(self, run: str) -> None:
        for logger in self._all:
            logger._lt_in_fit = logger._lt_in_fit and logger._lt_fitted_in != run
            if lost := len(self._kept.get(id(logger), "")):
                warn(f"{type(logger).__name__} did not take {lost} rows, and they are lost.", code="LT562")

    def begin_training(self, hooks: HookCalls) -> None:
        """Have hooks after each batch find the ranks' common values, where there is such a hook besides our own."""
        if self._strategy.world_size == 1:
            return
        name = "on_train_batch_end"
        readers = (is_overridden(cb, name, Callback) for cb in self._job.parts.callbacks if cb.batch_hooks_every)
        # asked of all: a callback may be on rank 0 alone
        if any(self._strategy.gather_objects(defines(self._module, name) or any(readers))):
            hooks.call_first(name, SharedSteps(self._recorder, self._strategy))

    def load_places(self, saved: Saved) -> None:
        """Have the loggers, on rank 0, continue the files of the run."""
        for logger, state in zip(self._all, saved.shared.get("loggers", []), strict=False):
            if state is not None and self._recorder.rank == 0:
                self.guarded(logger, logger.load_state_dict, state)

    def choose_versions(self) -> None:
        """Have rank 0 choose each logger's version, for all ranks."""
        strategy, is_first = self._strategy, self._recorder.rank == 0
        for index, logger in enumerate(self._all):
            claim = matched(logger.claim_version, ("beside",)) or logger.claim_version
            with waiting(f"the logger {type(logger).__name__}", says=is_first, after=30.0):
                version = claim(tuple(self._all[:index])) if is_first else None
            version = strategy.broadcast(version)
            if version is not None and not is_first:
                logger.use_version(version)

    def send_hparams(self) -> None:
        wanted = self.active and self._settings.enable_autolog_hparams
        if wanted and (params := _logged_hparams(self._module, self._job.loaders.datamodule)):
            self.each(lambda logger: logger.log_hyperparams(params))

    @property
    def _row_interval(self) -> Every | None:
        every = self._limits.log_every_n_steps
        if not every or not self.active:
            return None
        duration = every if isinstance(every, Duration) else Duration(every, "steps")
        self._every = found = self._elapsed.every(duration, self._every)
        return found

    def next_due(self) -> int:
        every = self._row_interval
        if every is None:
            return NEVER
        next_step = self._agenda.batch_of_step(self._position.step + 1)  # in the middle of a window none is due
        return max(self._elapsed.next_due(every), next_step)

    def shared_state(self, unsaved: Unsaved) -> StateDict:
        """Return version and place in the files of each logger, and the rows that were due by a duration."""
        return {"loggers": self.places(unsaved), "log_passed": counted_by(self._every)}

    def places(self, unsaved: Unsaved) -> list[StateDict | None]:
        """Return where each logger stands in its files; None for one that fails."""
        return [
            unsaved.optional(f"the place in the files of {type(logger).__qualname__}", logger.state_dict, logger=True)
            for logger in self._all
        ]

    def load_sums(self, saved: Saved) -> None:
        """Go on with these sums: each rank with its own, or where there are others now, rank 0 with the sums of all."""
        self._every, self._row_step = saved.shared.get("log_passed"), self._position.step
        if saved.same_ranks:
            self._recorder.load_state_dict(saved.own["recorder"])
            return
        sums = merged_sums([state["recorder"] for state in saved.by_rank], self._module)
        if self._recorder.rank:
            sums |= {"pages": [], "metrics": {}}
        self._recorder.load_state_dict(sums)

    def write_row(self) -> None:
        every, position = self._row_interval, self._position
        # the end of an epoch's data is a second look after the same step
        if every is None or position.micro or position.step == self._row_step:
            return
        if every.is_due() or (self._agenda.full and self._rows.should_stop):  # a row of the last step, as Lightning's
            self._row_step = position.step
            self.send(self._recorder.step_values("train"))

    def unsent(self) -> str:
        """Return which step values reached no logger, as the fit was shorter than ``log_every_n_steps``; or nothing."""
        every = self._row_interval
        names = self._recorder.logged_by_step()
        if every is None or every.reached or self._row_step == self._position.step or not names:
            return ""
        asked = self._limits.log_every_n_steps
        return (
            f"No step values ({', '.join(names)}) reached the loggers: training took {self._position.step} steps, and "
            f"Trainer(log_every_n_steps={asked}) sends a row every {asked}. Set a lower value."
        )

    def _send(self, values: dict[str, Any], step: int | None = None) -> None:
        """Send one row.

        Its place on the x axis is the key ``step`` in it, else ``step``, else what ``trainer.log_axis`` says: by
        default the number of the last optimizer step, and outside of a fit how many there were, here or in the file.
        """
        if not values:
            return
        row = dict(values)
        own = row.pop("step", None)
        axis = own if own is not None else step if step is not None else self._axis(row)
        self._recorder.values["logged"] |= row
        if own is None and step is None:  # evaluation batches stand on an axis of their own
            row.setdefault("epoch", self._position.epoch or self.file_at[1])
        try:
            place = int(axis)
        except (ValueError, OverflowError, TypeError):
            raise LogError(
                f"The x axis of what is logged (the key 'step', or trainer.log_axis={self._rows.log_axis!r}) is "
                f"{axis!r}. Expected a finite number: log another one by self.log('step', ...).",
                code="LT513",
            ) from None
        for logger in self._loggers:
            values = row if logger.takes_tensors else {name: as_number(value) for name, value in row.items()}
            self._kept[id(logger)].append({"metrics": values, "step": place})
            self._send_kept(logger)
        if self._history is not None and self._recorder.rank == 0:
            self._history.add(row, place)

    def _send_kept(self, logger: Logger) -> None:
        """Send rows, oldest first: one waits behind earlier ones that failed."""
        kept = self._kept[id(logger)]
        while kept and self.guarded(logger, logger.log_metrics, **kept[0]):
            kept.popleft()

    def _axis(self, row: dict[str, Any]) -> Any:
        name, position = self._rows.log_axis, self._position
        if name == "epoch":
            return position.epoch or self.file_at[1]
        if name == "samples":
            return self._rows.global_samples
        if name == "tokens":
            return position.tokens
        if name != "step":
            known = self._recorder.values["callback"] | row
            if known.get(name) is not None:
                return known[name]
            if self._history is not None and self._is_first("axis", name):
                warn(
                    f"trainer.log_axis={name!r}: nothing of this name is logged so far, so rows stand at the optimizer "
                    f"step. Logged: {', '.join(map(repr, sorted(known)))}.{did_you_mean(name, (*AXES, *known))}",
                    code="LT570",
                )
        return position.step or self.file_at[0] if self._history is None else max(position.step - 1, 0)

    def show(self, name: str, value: Any, step: int, folder: str) -> None:
        """Hand an image, a text or other media to every logger; write a file where none shows it, and say so once.

        Raises:
            LogError: for a value that cannot be a file either, and without lt-loggers.
        """
        shown: list[bool] = []
        self.each(lambda logger: shown.append(logger.log_media(name, value, step)))
        if any(shown):
            return
        write = plugins.find("defaults", "media")
        if write is None:
            raise LogError(
                f"log_media({name!r}): no logger can show a {type(value).__name__}. Files of what none shows come with "
                f"lt-loggers: {plugins.install_hint('lt-loggers')}.",
                code="LT522",
            )
        with recording(f"The file of {name!r}"):
            path = write(folder, name, value, step)
            if self._is_first("file"):
                warn(f"No logger can show {name!r}, so it is a file: {path}", code="LT521")

    def each(self, action: Callable[[Logger], Any]) -> None:
        for logger in self._loggers:
            self._send_kept(logger)
            self.guarded(logger, action, logger)

    def guarded(self, logger: Logger, action: Hook, *args: Any, **named: Any) -> bool:
        """Do ``action``, which is one of ``logger``; return whether it went well, else report it once."""
        says = not (named and logger.takes_tensors)  # such rows are only kept: in 1 µs, not in the 100 of a timer
        try:
            with waiting(f"the logger {type(logger).__name__}", says=says, after=30.0):
                action(*args, **named)
        except LogError as error:
            if self._is_first("refused", id(logger)):
                warn(f"{type(logger).__name__} refused a value: {error} It is left out.", code="LT520")
        except Exception as error:
            if raised := from_signal_handler(error):
                raise raised from None
            if self._is_first("failed", id(logger)):
                warn(
                    f"{type(logger).__name__} failed ({type(error).__name__}: {error}). Training goes on; up to "
                    f"{_KEPT_ROWS} rows are kept and sent when it works again.",
                    code="LT520",
                )
            return False
        return True

    def _is_first(self, *report: object) -> bool:
        """Return whether this is reported for the first time in this run."""
        is_first = report not in self._reported
        self._reported.add(report)
        return is_first


def _logged_hparams(module: LightningModule, datamodule: DataSource | None) -> dict[str, Any]:
    """Return the hyperparameters of module and datamodule, for the loggers.

    Raises:
        ConfigError: when both have one of a name, with different values.
    """
    params = logged_hparams(module)
    if isinstance(datamodule, HyperparametersMixin):
        theirs = logged_hparams(datamodule)
        clashes = [name for name in theirs if name in params and params[name] != theirs[name]]
        if clashes:
            raise ConfigError(
                f"Module and datamodule both save the hyperparameter {clashes[0]!r}, with {params[clashes[0]]!r} and "
                f"{theirs[clashes[0]]!r}. Rename one, or save_hyperparameters(logger=False) in one of them.",
                code="LT216",
            )
        params |= theirs
    return params
