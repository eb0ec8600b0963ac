"""The lock of a run: one process at a time writes its checkpoints and its rows."""

import errno
import json
import os
import platform
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from threading import Event, Thread
from urllib.parse import quote

try:
    import fcntl
except ImportError:  # Windows: no lock
    fcntl = None  # type: ignore[assignment]

_BEAT = 1.0
"""Seconds between two signs of life of a lock's holder."""

_WATCH = 5.0
"""Seconds in which one of another host must be seen."""

_ours: set[Path] = set()
"""Locks of this process and of its parents, if it was forked."""


class RunLock:
    """Locks a file beside a run's own, for as long as the process lives: the kernel unlocks it with kill -9 too.

    It is a record lock, which forks do not inherit: the loader workers of a killed process keep nothing. The file says
    where it lies, for which host and process. What is said from elsewhere (a folder that was copied or renamed) counts
    for nothing; another host's lock, about which the kernel here may know nothing, counts if the file's time is seen to
    move. Where there are no locks, or nothing can be written, there is none.
    """

    def __init__(self) -> None:
        self._held: dict[Path, int] = {}
        self._pid, self._lost = 0, ("", "")  # the second: host and process that gave no sign of life
        self._beating: tuple[Thread, Event] | None = None  # made in the process that runs

    def claim(self, run: str, folders: Iterable[str]) -> str:
        """Lock ``run`` in the ``folders`` that exist; return the process that has it, or nothing."""
        self._pid = os.getpid()
        for folder in folders:
            with suppress(OSError, RuntimeError):  # the latter: a link to itself
                path = Path(folder).resolve() / f".{quote(run, safe='')[:200]}.lock"
                if fcntl is None or path in _ours or "://" in folder or not path.parent.is_dir():
                    continue
                if holder := self._take(path):
                    return holder
        if self._held and self._beating is None:
            ended = Event()
            thread = Thread(target=self._beat, args=(ended,), name="lt-run-lock", daemon=True)
            self._beating = thread, ended
            thread.start()
        return ""

    def _take(self, path: Path) -> str:
        """Lock ``path``; return who has it, or nothing. Raises OSError where there are no locks."""
        while True:
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
            try:
                taken = _lock(file)
                said = _read(file, path)
                if said and said["host"] != _host():
                    lives = (said["host"], said["pid"]) != self._lost and _moves(path)
                    self._lost = said["host"], said["pid"]
                    taken = _lock(file)  # again: closing the file anywhere in this process has unlocked it
                else:
                    lives = not taken
                if said and lives:
                    return f"process {said['pid']} on {said['host'].partition(' ')[0]}"
                if not taken:
                    return ""
                if not _is_at(file, path):
                    continue  # its holder has ended and deleted it meanwhile
                text = json.dumps({"path": str(path), "host": _host(), "pid": self._pid})
                os.ftruncate(file, 0)
                os.pwrite(file, text.encode(), 0)
                os.fsync(file)  # for other hosts
                self._held[path] = file
                _ours.add(path)
                return ""
            finally:
                if path not in self._held:
                    os.close(file)

    def _beat(self, ended: Event) -> None:
        while not ended.wait(_BEAT):
            for file in list(self._held.values()):
                with suppress(OSError):
                    os.utime(file)
                    _lock(file)  # reading the file in this process (a copy of the folder) has unlocked it

    def release(self) -> None:
        """Unlock and delete the files; a fork leaves its parent's."""
        if self._pid != os.getpid():
            return
        if self._beating is not None:
            thread, ended = self._beating
            ended.set()
            thread.join()
            self._beating = None
        while self._held:
            path, file = self._held.popitem()
            with suppress(OSError):
                if _is_at(file, path):
                    path.unlink()
            os.close(file)
            _ours.discard(path)


def _lock(file: int) -> bool:
    # a record lock: other hosts see it over NFS; the kernel drops it when any descriptor of the file is closed here
    try:
        fcntl.lockf(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EAGAIN):
            raise
        return False
    return True


def _is_at(file: int, path: Path) -> bool:
    with suppress(FileNotFoundError):
        return os.path.samestat(os.fstat(file), path.stat())
    return False


def _read(file: int, path: Path) -> dict[str, str]:
    """Return the content of a lock; empty if it was written for another place."""
    with suppress(ValueError, TypeError, KeyError):
        said = json.loads(os.pread(file, 10_000, 0))
        if said["path"] == str(path) and isinstance(said["host"], str) and "pid" in said:
            return dict(said)
    return {}


def _moves(path: Path) -> bool:
    """Return whether the file's time moves."""
    first, ends = None, time.monotonic() + _WATCH
    while time.monotonic() < ends:
        with suppress(FileNotFoundError):
            with path.open("rb"):  # over NFS, opening a file asks for its time anew
                now = path.stat().st_mtime_ns
            if first not in (None, now):
                return True
            first = now
        time.sleep(0.2)
    return False


def _host() -> str:
    """Return this machine's name, and since when it runs: of two of one name, and after a restart, that differs."""
    boot = Path("/proc/sys/kernel/random/boot_id")
    return f"{platform.node()} {boot.read_text().strip() if boot.exists() else ''}"
