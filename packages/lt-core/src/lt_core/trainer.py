"""The Trainer's interface for callbacks, loggers, modules and kits."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from os import PathLike
from typing import Any, Literal, Protocol, runtime_checkable

from torch import Tensor, nn
from torch.optim import Optimizer

from lt_core._bases.callback import CallbackBase
from lt_core._bases.module import ModuleBase
from lt_core.accelerator import Accelerator
from lt_core.checkpoint import CheckpointIO
from lt_core.data import DataSource, Feed
from lt_core.duration import Unit
from lt_core.logger import Logger
from lt_core.logging.recorder import Recorder
from lt_core.precision import Precision
from lt_core.profiler import Profiler
from lt_core.strategy import Strategy

__all__ = ["TrainerAPI"]


@runtime_checkable
class TrainerAPI(Protocol):
    """The public face of a Trainer: every hook and ``LightningModule.trainer`` is typed with it.

    ``lt_loops.Trainer`` is the real one, ``lt_testing.FakeTrainer`` one for tests.
    """

    # settable limits and flags; a change counts from the next batch on
    should_stop: bool
    max_epochs: int | None
    min_epochs: int | None
    max_steps: int
    min_steps: int | None
    accumulate_grad_batches: int | Literal["auto"] | dict[int, int]
    gradient_clip_val: float | None
    gradient_clip_algorithm: str | None
    limit_train_batches: int | float | None
    limit_val_batches: int | float | None
    val_check_interval: Any
    check_val_every_n_epoch: int | None
    log_every_n_steps: Any

    # ---- who and where -----------------------------------------------------------------------------------------------

    @property
    def lightning_module(self) -> ModuleBase:
        """The user's module of the present run, a ``LightningModule``."""

    @property
    def model(self) -> nn.Module | None:
        """The same module as the strategy set it up."""

    @property
    def datamodule(self) -> DataSource | None:
        """The datamodule of the present run, if one was given."""

    @property
    def callbacks(self) -> Sequence[CallbackBase]:
        """All callbacks, in the order in which they are called."""

    @property
    def loggers(self) -> list[Logger]:
        """All loggers."""

    @property
    def logger(self) -> Logger | None:
        """The first logger, or None."""

    @property
    def strategy(self) -> Strategy:
        """Where the run happens."""

    @property
    def accelerator(self) -> Accelerator:
        """The kind of device."""

    @property
    def precision_plugin(self) -> Precision:
        """The number format."""

    @property
    def profiler(self) -> Profiler:
        """The profiler; one that measures nothing by default."""

    @property
    def checkpoint_io(self) -> CheckpointIO:
        """The writer and reader of checkpoint files."""

    @property
    def recorder(self) -> Recorder:
        """The recorder behind ``self.log``."""

    @property
    def optimizers(self) -> list[Optimizer]:
        """The optimizers, in declared order."""

    @property
    def lr_scheduler_configs(self) -> list[Any]:
        """The schedulers with interval, frequency, monitor and name."""

    @property
    def global_rank(self) -> int:
        """Number of this process in the job, from 0."""

    @property
    def local_rank(self) -> int:
        """Number of this process on its node, from 0."""

    @property
    def node_rank(self) -> int:
        """Number of this node, from 0."""

    @property
    def world_size(self) -> int:
        """Processes in the job."""

    @property
    def num_devices(self) -> int:
        """Devices on this node."""

    @property
    def num_nodes(self) -> int:
        """Nodes in the job."""

    @property
    def is_global_zero(self) -> bool:
        """Whether this process is rank 0."""

    @property
    def named_checkpoint(self) -> str | None:
        """The checkpoint of this fit's resume if named by its path: only the user deletes it."""

    @property
    def resumes_automatically(self) -> bool:
        """Whether repeating the call resumes from the newest checkpoint: ``ckpt_path="auto"``."""

    @property
    def fast_dev_run(self) -> bool | int:
        """Whether this is a trial of one (True) or N batches, which leaves no files."""

    @property
    def default_root_dir(self) -> str:
        """Where files go when nothing else says it."""

    @property
    def log_dir(self) -> str | None:
        """The folder of this run, the same on all ranks."""

    # ---- progress ----------------------------------------------------------------------------------------------------

    @property
    def stage(self) -> str | None:
        """The run: ``"fit"``, ``"validate"``, ``"test"``, ``"predict"``, or None outside of one."""

    @property
    def training(self) -> bool:
        """Whether training batches are being read (not the validation inside ``fit``)."""

    @property
    def validating(self) -> bool:
        """Whether a validation runs, by itself or inside ``fit``."""

    @property
    def testing(self) -> bool:
        """Whether a test runs."""

    @property
    def predicting(self) -> bool:
        """Whether a prediction runs."""

    @property
    def sanity_checking(self) -> bool:
        """Whether the few validation batches before training run."""

    @property
    def interrupted(self) -> bool:
        """Whether a signal or Ctrl-C ended the last run."""

    @property
    def stop_reason(self) -> str:
        """Why the last fit ended, or ends in this epoch, as a short text."""

    @property
    def current_epoch(self) -> int:
        """Training epochs done, from 0; inside an epoch its number."""

    @property
    def global_step(self) -> int:
        """Optimizer steps taken, from 0: windows in which at least one optimizer stepped."""

    @property
    def batch_idx(self) -> int:
        """Training batches done in this epoch; inside a batch its number."""

    @property
    def total_batches(self) -> int:
        """Training batches done in all epochs, on this rank."""

    @property
    def global_samples(self) -> int:
        """Training samples consumed by all ranks; 0 where the size of batches is unknown."""

    @property
    def global_tokens(self) -> int:
        """Training tokens consumed by all ranks; 0 where the module has no ``count_tokens``."""

    def elapsed(self, unit: Unit, *, at_start: bool = False) -> float:
        """Return how much of the fit is done, or was when this process began to train, in a unit of a Duration."""

    @property
    def num_training_batches(self) -> int | float:
        """Training batches in an epoch on this rank, limits applied; ``inf`` where unknown."""

    @property
    def num_val_batches(self) -> list[int | float]:
        """Validation batches for each loader, limits applied."""

    @property
    def num_sanity_val_batches(self) -> list[int | float]:
        """Sanity-check batches for each loader."""

    @property
    def num_test_batches(self) -> list[int | float]:
        """Test batches for each loader, limits applied."""

    @property
    def num_predict_batches(self) -> list[int | float]:
        """Batches to predict for each loader, limits applied."""

    @property
    def estimated_stepping_batches(self) -> int | float:
        """Optimizer steps of the whole fit, as its limits allow."""

    @property
    def train_dataloader(self) -> Any:
        """The user's training loader or loaders."""

    @property
    def val_dataloaders(self) -> Any:
        """The user's validation loader or loaders."""

    @property
    def test_dataloaders(self) -> Any:
        """The user's test loader or loaders."""

    @property
    def predict_dataloaders(self) -> Any:
        """The user's loader or loaders to predict on."""

    def predict_indices(self, dataloader_idx: int = 0) -> Sequence[int] | None:
        """Return the positions in the data set of the samples of the present batch to predict; None where unknown."""

    # ---- metrics -----------------------------------------------------------------------------------------------------

    @property
    def callback_metrics(self) -> dict[str, Tensor]:
        """All logged values by name; callbacks monitor them."""

    @property
    def logged_metrics(self) -> dict[str, Tensor]:
        """The values last sent to the loggers."""

    @property
    def progress_bar_metrics(self) -> dict[str, float]:
        """The values in the progress bar."""

    def log_metrics(self, metrics: dict[str, Any], step: int | None = None) -> None:
        """Send numbers to the loggers now, at ``step`` (default: the optimizer step)."""

    def log_media(self, name: str, value: Any, step: int | None = None) -> None:
        """Send an image, figure, histogram, text, table, audio or video to the loggers."""

    # ---- actions -----------------------------------------------------------------------------------------------------

    def stop(self, reason: str) -> None:
        """End training at the next boundary, as ``should_stop = True`` does, and say why; call it on all ranks."""

    def save_checkpoint(
        self,
        filepath: str | PathLike[str],
        weights_only: bool = False,
        storage_options: Any = None,
        *,
        trainable_only: bool = False,
        exclude: str | Iterable[str] = (),
        mark: str = "",
    ) -> None:
        """Write a checkpoint now. Exact resume is promised for :meth:`request_save` only."""

    def request_save(
        self,
        path: str | PathLike[str],
        *,
        weights_only: bool = False,
        owner: CallbackBase | None = None,
        trainable_only: bool = False,
        exclude: str | Iterable[str] = (),
        mark: str = "",
        write: Callable[[str], object] | None = None,
    ) -> None:
        """Have a checkpoint written when this boundary is complete: all hooks run, schedulers stepped, position
        moved.

        Args:
            path: the file.
            weights_only: leave out the state for a resume.
            owner: its ``on_saved(path)`` is called.
            trainable_only: leave out frozen parameters.
            exclude: leave out the weights whose names fit one of these patterns (``"backbone.*"``).
            mark: goes into the file's header (``checkpoint_io.header(path).mark``), so that the owner knows its files
                again in a later process.
            write: called with the path on all ranks in place of the loop's own writing; by :meth:`save_checkpoint`, for
                instance, together with work on the finished file.
        """

    def remove_checkpoint(self, path: str | PathLike[str]) -> None:
        """Delete a checkpoint that this run wrote, after the saves requested before."""

    def trial(self, max_steps: int, **overrides: Any) -> Any:
        """Run a short fit on a snapshot that is restored exactly; return its measurements (``lt_loops.trial.Trial``).

        In ``validate``, ``test`` and ``predict`` it is a short evaluation.

        Args:
            max_steps: optimizer steps, or batches of each loader of the evaluation.
            overrides: Trainer arguments for the trial only, such as ``callbacks=[...]``; ``new_loaders=False`` reads
                the fit's own loaders, which are otherwise asked for anew.
        """

    def window_of(self, epoch: int) -> int:
        """Return how many batches make an optimizer step in ``epoch``."""

    def train_feed(self) -> Feed:
        """Return a feed that reads the training loaders anew, as training does; inside ``fit``. Close it after use."""

    def reload_train_loader(self) -> None:
        """Have the training loader asked for anew before the next epoch; after a change of its batch size.

        In ``validate``, ``test`` and ``predict`` the evaluation's loaders, at once; call it as the evaluation starts.
        """

    def all_gather(self, data: Any, group: Any = None, sync_grads: bool = False) -> Any:
        """Return every tensor of ``data`` from all ranks, stacked: shape ``(world_size, *shape)``; one rank: as it
        is.
        """

    def reduce(self, data: Tensor | float, op: str = "mean") -> Tensor:
        """Return a number or tensor reduced over the ranks: ``"mean"``, ``"sum"``, ``"min"`` or ``"max"``."""

    def broadcast(self, value: Any, src: int = 0) -> Any:
        """Return rank ``src``'s ``value`` on every rank."""

    def barrier(self, name: str = "") -> None:
        """Wait until every rank is here."""

    def call(self, event: str, *args: Any, **kwargs: Any) -> None:
        """Call the method ``event`` of all callbacks, with Trainer and module first, and the module's: an own event."""

    def print(self, *args: Any, **kwargs: Any) -> None:
        """Print on rank 0 only, without tearing the progress bar."""

    def mark_dirty(self) -> None:
        """Have the plan of the loop made again at the next batch; after a change that the loop cannot see."""

    def init_module(self) -> AbstractContextManager[Any]:
        """Return a context in which a module is made directly on the device and in the precision of this Trainer."""

    def all_loaders(self, stage: str) -> Sequence[Any]:
        """Return the flat list of the user's loaders for a stage (``"train"``, ``"val"``, ``"test"``,
        ``"predict"``).
        """
