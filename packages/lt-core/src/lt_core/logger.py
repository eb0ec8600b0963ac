"""The interface of loggers, which show metrics and hyperparameters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from lt_core._bases.callback import CallbackBase
from lt_core.interface import Interface

__all__ = ["DummyExperiment", "DummyLogger", "Logger"]


class Logger(Interface):
    """The interface of a logger; the default swallows everything, so that no loop asks whether there is one.

    The Trainer calls the writing members on rank 0 only, and reports an exception of theirs once instead of ending the
    run. A logger buffers by itself and writes in batches; :meth:`save` flushes. It is found by an entry point in
    ``lt.loggers`` (a class or a function called with the keyword ``save_dir``).

    Attributes:
        takes_tensors: True: :meth:`log_metrics` of the Trainer brings values as they are, 0-dim tensors on a device
            among them, so that nothing waits for the device before the logger reads them; False: floats and ints.
    """

    takes_tensors: bool = False
    _lt_fitted_in: str = ""  # the name of the last fit's run
    _lt_in_fit: bool = False

    @property
    def name(self) -> str | None:
        """Name of the experiment, the folder below :attr:`save_dir`."""
        return None

    @property
    def group_separator(self) -> str:
        """The separator between the group and the rest of a metric's name, such as a monitor's."""
        return "/"

    @property
    def version(self) -> int | str | None:
        """This run among the runs of the same name; chosen once, by rank 0."""
        return None

    @property
    def save_dir(self) -> str | None:
        """The folder that holds the experiments, where the logger keeps files."""
        return None

    @property
    def root_dir(self) -> str | None:
        """The folder of this experiment, ``save_dir/name``."""
        return None

    @property
    def log_dir(self) -> str | None:
        """The folder of this run, ``save_dir/name/version_N``; checkpoints go below it."""
        return None

    @property
    def experiment(self) -> Any:
        """The library's own object behind this logger (a SummaryWriter, a wandb run...), or None."""
        return None

    def claim_version(self, beside: Sequence[Logger] = ()) -> int | str | None:
        """Choose :attr:`version` for good, on rank 0: two jobs that start at the same time get two.

        Loggers with folders make them here, loggers with a server register the run. The Trainer hands the result
        to the other ranks by :meth:`use_version`.

        Args:
            beside: the run's loggers that have claimed theirs already; one folder can then hold the files of all.
        """
        return self.version

    def use_version(self, version: int | str) -> None:
        """Take over the version that rank 0 chose, or that a checkpoint recorded when a run resumes."""

    def begin_anew(self) -> None:
        """Leave the run of the last fit to itself, on all ranks: a fit begins that does not continue it, and claims a
        version next. One that the user gave stays. Evaluations go on in the run of the fit before.
        """

    def log_metrics(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Record numbers at ``step`` (optimizer steps, or the axis that the user chose).

        The Trainer passes both by name, so that loggers may have parameters of their own beside them.
        Values are floats and ints; with :attr:`takes_tensors` also 0-dim tensors, on a device perhaps: copy those that
        the caller could change in place.

        Raises:
            LogError: for a row that can never be taken; the Trainer drops it.
            Exception: any other one means that the row was not taken; the Trainer keeps it and sends it again.
        """

    def log_hyperparams(self, params: Mapping[str, Any], metrics: Mapping[str, float] | None = None) -> None:
        """Record hyperparameters (plain data, nested), with the metrics that they led to where known."""

    def log_graph(self, model: nn.Module, input_array: Any = None) -> None:
        """Record the model's graph, traced with ``input_array`` (the module's ``example_input_array``)."""

    def log_media(self, name: str, value: Any, step: int | None = None) -> bool:
        """Record a medium: any value that :func:`lt_loggers.media.as_media` knows, or the
        library's own objects.

        Read ``value`` before returning: the caller may change it afterwards.

        Returns:
            False where this logger cannot show such a value; the Trainer then writes it as a file, and says so once.
        """
        return False

    def after_save_checkpoint(self, checkpoint_callback: CallbackBase) -> None:
        """Called when ``checkpoint_callback`` has completed a save; to upload it, for instance."""

    def save(self) -> None:
        """Write the buffered values."""

    def finalize(self, status: str) -> None:
        """Close the run: ``"success"``, ``"failed"`` or ``"interrupted"``. Later calls may open it again."""

    def state_dict(self) -> dict[str, Any]:
        """Return the state with which a resumed run continues the same files: the version, and each file's length.

        Called after :meth:`save`, on every rank; plain data.
        """
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where :meth:`state_dict` was taken: rows written after it are dropped, none is lost or doubled.

        Ignore a state of another kind of logger: the user may have changed them between the runs.
        """


class DummyLogger(Logger):
    """A logger that keeps nothing, for ``fast_dev_run``: code that calls ``self.logger.experiment.anything()`` runs."""

    @property
    def experiment(self) -> Any:
        """An object on which every method does nothing."""
        return DummyExperiment()

    def log_media(self, name: str, value: Any, step: int | None = None) -> bool:
        """Swallow it, and say that it is shown."""
        return True


class DummyExperiment:
    """Stands for a logger's experiment where nothing is kept: every method does nothing."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: None

    def __getitem__(self, index: Any) -> DummyExperiment:
        return self

    def __setitem__(self, index: Any, value: Any) -> None:
        """Keep nothing."""
