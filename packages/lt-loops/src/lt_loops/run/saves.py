"""Save points: callbacks ask, the loop saves when a boundary is complete."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from lt_core import CallbackBase
from lt_core.checkpoint import CheckpointIO, SupportsShards
from lt_core.errors import CheckpointError, ConfigError, warn
from lt_core.files.atomic_file import make_folder
from lt_core.files.checkpoint_header import Contents, Header
from lt_core.logger import Logger
from lt_loops.run.job import Context, Owner
from lt_loops.state.origin import StateDict
from lt_loops.state.unsaved import listed

Capture = Callable[[Contents], tuple[StateDict, Exception | None]]
"""Makes a checkpoint of this moment, on every rank: the tree, and an exception of the user's own hooks."""

EachLogger = Callable[[Callable[[Logger], Any]], None]
"""Does something with every logger; one that fails is reported."""


class SaveRequest(NamedTuple):
    """A requested checkpoint.

    Attributes:
        path: the file.
        contents: its parts.
        owner: the callback that hears how it ended.
        mark: the owner, as the file names it (:meth:`lt_core.files.checkpoint_header.Header.marked`).
        write: called with the path in place of the loop's own writing, if any.
        batches: training batches done when it was written: which state it holds.
        header: of the written file.
    """

    path: str
    contents: Contents
    owner: CallbackBase | None
    mark: str
    write: Callable[[str], object] | None = None
    batches: int = 0
    header: Header | None = None


class Saves(Owner):
    """Pending, running and finished saves.

    A checkpoint may be written in the background: it is confirmed, on all ranks alike, before the next one is made, and
    at the end of the run. A request that fails is that request's failure and no other's.

    Attributes:
        requests: made since the last boundary.
        newest: the last file on disk from which a fit can resume, "" for none.
        together: whether several ranks save; the process that started a run in others, which are gone, saves alone.
    """

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._io = context.job.parts.checkpoint_io
        self.together = self._strategy.world_size > 1
        self.requests: list[SaveRequest] = []
        self.newest = ""
        self._unconfirmed: list[SaveRequest] = []
        self._said: set[str] = set()
        self._on_disk: dict[Contents, int] = {}  # batches done in the newest state
        self._failures: dict[Contents, tuple[int, Exception]] = {}  # the same of the newest one that was not written

    def request(self, request: SaveRequest) -> None:
        self.requests.append(request)
        self._agenda.request_check()

    def give_up(self, error: BaseException) -> None:
        """Tell the owners of pending requests that they will not be written: the run ends by ``error``."""
        requests, self.requests = self.requests, []
        for request in requests:
            if request.owner is not None:
                request.owner.on_save_failed(request.path, error)

    def serve(self, capture: Capture, each_logger: EachLogger) -> None:
        """Write the pending requests: all hooks have run, schedulers stepped, the position moved."""
        trees: dict[Contents, StateDict] = {}  # one for all requests with the same contents
        failed: Exception | None = None
        served: list[CallbackBase] = []
        with self._measured():
            self.confirm()  # earlier failures are known before anything is decided on them
            requests, self.requests = self.requests, []  # requests of on_saved are for the next boundary
            each_logger(lambda logger: logger.save())  # the tree holds how far their files go
            # own writing comes last: it finds the other files of this boundary
            for asked in sorted(requests, key=lambda request: request.write is not None):
                # the position may be another one by the time at which the background is done with it
                request = asked._replace(batches=self._position.batches)
                if asked.write is None:
                    if asked.contents not in trees:
                        trees[asked.contents], broken = capture(asked.contents)
                        failed = failed or broken
                    tree = Header.marked(trees[asked.contents], asked.mark)
                    request = request._replace(header=Header.of(tree))
                    error = self._agreed(partial(self._write, asked.path, tree, self._io))
                    if error is None:
                        self.say_unsaved(f"{asked.path} was", tree.get("gaps", {}))
                        self._unconfirmed.append(request)  # before on_saved, which may raise
                else:
                    error = self._agreed(partial(asked.write, asked.path))
                if error is not None:
                    self._report(request, error)
                    continue
                if request.owner is not None:
                    served.append(request.owner)
                    request.owner.on_saved(request.path)
        for owner in served:  # all of their files are there
            each_logger(lambda logger, owner=owner: logger.after_save_checkpoint(owner))  # type: ignore[misc]
        if failed is not None:  # of the user's own code, as from any hook; all else is saved
            raise failed

    def save_now(
        self,
        path: str,
        contents: Contents,
        capture: Capture,
        storage_options: Any,
        each_logger: EachLogger | None,
        mark: str = "",
    ) -> Exception | None:
        """Write a checkpoint of this moment, complete on every rank when this returns.

        ``each_logger`` is None after the run, when the CheckpointIO is closed here; ``mark`` names the file's owner.

        Returns:
            An exception of the user's own hooks, to be raised; the file lacks only their additions.

        Raises:
            CheckpointError: on every rank, where it could not be written.
            ConfigError: for ``storage_options`` that nothing would take.
        """
        self.confirm()  # a failure of an earlier save is not this one's
        io = self._io
        if storage_options is not None:
            if self._strategy.capabilities.sharded_checkpoints and isinstance(io, SupportsShards):
                raise ConfigError(
                    f"save_checkpoint(storage_options=...) is for checkpoints of one file: here every rank writes its "
                    f"part by {type(io).__name__}.save_shards, which takes no options. Give them to its constructor.",
                    code="LT590",
                )
            io = _Passing(io, storage_options)
        try:
            with self._measured():
                if each_logger is not None:  # a place in files is saved: rows not written yet would be cut off
                    each_logger(lambda logger: logger.save())
                tree, failed = capture(contents)
                error = self._agreed(partial(self._write, path, Header.marked(tree, mark), io, wait=True))
                if error is not None:
                    raise error
        finally:
            if each_logger is None:
                self._io.teardown()
        self._is_on_disk(path, contents, self._position.batches)
        self.say_unsaved(f"{path} was", tree.get("gaps", {}))
        return failed

    def hear(self) -> None:
        """Report a save that has failed in the background, before anybody decides on the next one; wait for none.

        All ranks call this together.
        """
        if not self._unconfirmed:
            return
        writing = self._io.is_writing()
        if self.together:
            writing = any(self._strategy.gather_objects(writing))
        if not writing:
            self.confirm()

    def confirm(self, *, together: bool = True) -> None:
        """Wait for background writes, and report failures.

        ``together``: all ranks call this; not so where an exception may end one alone.
        """
        pending, self._unconfirmed = self._unconfirmed, []
        failures = self._io.failures()
        errors = {request.path: _error_of(request, failures, self._io) for request in pending}
        blamed = {id(error) for error in errors.values()}
        for path in sorted(failures.keys() - errors.keys()):  # a link or a removal; no checkpoint is lost
            if id(failures[path]) in blamed:  # said already, with the request whose file it is
                continue
            warn(
                f"In the background: {str(failures[path]).rstrip('.')}. Training goes on, no checkpoint is lost.",
                code="LT620",
            )
        if pending and together:
            errors = self._agreed_on_each(errors)
        for request in pending:
            error = errors[request.path]
            if error is None:
                self._is_on_disk(request.path, request.contents, request.batches)
            else:
                self._report(request, error)

    def _is_on_disk(self, path: str, contents: Contents, batches: int) -> None:
        here = self._strategy.rank != 0 or "://" in path or Path(path).exists()
        if not here and not self._on_disk and not self._io.exists(path):
            name = type(self._io).__name__
            text = f"{name}.save_checkpoint raised no error, and {name}.exists finds no {path}, so that no resume does."
            warn(f"{text} Write it there, or define exists, times and header for where it is.", code="LT760")
        self._on_disk[contents] = batches
        if contents == Contents():
            self.newest = path

    def why_unsaved(self) -> str:
        """Return why the newest state that was to be saved is not on disk; empty where it is, or a later one."""
        for contents, (batches, error) in self._failures.items():
            # a whole checkpoint holds all parts
            if batches > max(self._on_disk.get(contents, -1), self._on_disk.get(Contents(), -1)):
                return str(error)
        return ""

    def _measured(self) -> AbstractContextManager[Any]:
        profiler = self._job.profiler
        return nullcontext() if profiler is None else profiler.profile("save_checkpoint")

    def _write(self, path: str, tree: StateDict, io: CheckpointIO, *, wait: bool = False) -> None:
        if self._strategy.rank == 0 and "://" not in path:
            make_folder(Path(path).parent)
        self._strategy.save_checkpoint(io, tree, path)
        if wait:
            self._io.wait()

    def _agreed(self, write: Callable[[], object]) -> Exception | None:
        """Write; return on all ranks an error that any of them had: their callbacks must go on from the same files."""
        failed: Exception | None = None
        try:
            write()
        # trouble with a disk ends no training; any other error is a mistake in code, and is raised
        except (CheckpointError, OSError) as error:
            failed = error
        return self._agreed_on_each({"": failed})[""]

    def _agreed_on_each(self, errors: dict[str, Exception | None]) -> dict[str, Exception | None]:
        """Return, for each file, the error that any rank had with it, on all."""
        if not self.together:
            return errors
        mine = {path: str(error) for path, error in errors.items() if error is not None}
        everyone = self._strategy.gather_objects(mine)
        others = {path: CheckpointError(text) for texts in reversed(everyone) for path, text in texts.items()}
        return {path: error or others.get(path) for path, error in errors.items()}

    def _report(self, request: SaveRequest, error: Exception) -> None:
        """Say loudly, once for all ranks, that a save failed; training goes on, older checkpoints stay."""
        self._failures[request.contents] = (request.batches, error)
        if self._strategy.rank == 0:
            why = str(error).removeprefix(f"{request.path} ").rstrip(".")
            warn(
                f"CHECKPOINT NOT SAVED: {request.path}: {why}. Training goes on and older checkpoints stay; free "
                "disk space or fix the permissions; the next save will try again.",
                code="LT640",
            )
        if request.owner is not None:
            request.owner.on_save_failed(request.path, error)

    def say_unsaved(self, what: str, gaps: Mapping[str, str]) -> None:
        """Warn of the parts that ``what`` lacks, once for each."""
        new = {part: why for part, why in gaps.items() if part not in self._said}
        self._said.update(new)
        if new and self._strategy.rank == 0:
            warn(
                f"{what} saved without {listed(new)}. A resume begins that anew, everything else continues "
                "exactly. The file's key 'gaps' lists it.",
                code="LT604",
            )


def _error_of(request: SaveRequest, failures: Mapping[str, Exception], io: CheckpointIO) -> Exception | None:
    """Return why a request failed; where it is not known which one did, look whether its file is there."""
    if "" not in failures:
        return failures.get(request.path)
    written = request.header is not None and io.header(request.path) == request.header
    return failures.get(request.path) or (None if written else failures[""])


class _Passing(CheckpointIO):
    """Passes these options to ``io`` with each write."""

    def __init__(self, io: CheckpointIO, storage_options: Any) -> None:
        self._io, self._options = io, storage_options

    def save_checkpoint(self, checkpoint: Mapping[str, Any], path: Any, storage_options: Any = None) -> None:
        self._io.save_checkpoint(checkpoint, path, storage_options=self._options)
