"""The code that a run was started with."""

from __future__ import annotations

import os
import shutil
import subprocess
import zlib
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from lt_core.callback import Callback
from lt_core.checkpoint import local_folder
from lt_core.errors import recording, warn

if TYPE_CHECKING:
    from lt_core.module import LightningModule
    from lt_core.trainer import TrainerAPI

__all__ = ["GitState"]

_AS_GIT_APPLY_READS_IT = [
    "--binary",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "--submodule=short",
    "--src-prefix=a/",
    "--dst-prefix=b/",
]
"""Whatever the user's own configuration of ``git diff`` is."""


class GitState(Callback):
    """Keeps with a run the commit of your git repository and how your files differ from it.

    When ``fit`` begins, rank 0 writes ``git-<commit>-<checksum>.patch`` into the run's folder, ``trainer.log_dir``: the
    commit, the changed and new files by name, then the differences of tracked files and of new Python files that git
    does not ignore. ``git checkout <commit>`` and ``git apply --allow-empty <file>`` bring the code back. A run that is
    resumed with other code has a second file. In checkpoints ``state_dict`` holds ``commit`` and ``patch``, the file's
    name. The repository is left as it is, and its index too.

    Args:
        folder: any folder of the repository; default: the current one.

    Example::

        trainer = Trainer(callbacks=[GitState()])
    """

    def __init__(self, folder: str | os.PathLike[str] = ".") -> None:
        self.folder = folder
        self._lt_state: dict[str, str] = {}

    def on_fit_start(self, trainer: TrainerAPI, pl_module: LightningModule) -> None:
        """Write the file; where git fails (no repository, no commit, not installed), warn."""
        self._lt_state = {}
        if trainer.fast_dev_run or not trainer.is_global_zero:
            return
        try:
            commit, text = _read(self.folder)
        except (OSError, subprocess.CalledProcessError) as error:
            said = (getattr(error, "stderr", b"").decode().strip() or str(error)).rstrip(".")
            warn(
                f"GitState(folder={self.folder!r}): the code of this run is not kept, for git failed: {said}.",
                code="LT806",
            )
            return
        name = f"git-{commit[:12]}-{zlib.crc32(text):08x}.patch"
        with recording(name), local_folder(trainer.log_dir or ".") as run:
            (run / name).write_bytes(text)
            self._lt_state = {"commit": commit, "patch": name}

    def state_dict(self) -> dict[str, Any]:
        return self._lt_state


def _read(folder: str | os.PathLike[str]) -> tuple[str, bytes]:
    """Return the commit and the file's content."""

    def git(*words: str, **variables: str) -> bytes:
        command = ["git", "--no-optional-locks", "-C", os.fspath(folder), *words]
        return subprocess.run(command, env=os.environ | variables, capture_output=True, check=True).stdout

    commit = git("rev-parse", "--verify", "HEAD").decode().strip()
    state = git("status", "--porcelain", "--branch").strip().replace(b"\n", b"\n# ")
    with TemporaryDirectory() as copies:
        # with its time, by which git tells which files it must read
        index = shutil.copy2(Path(git("rev-parse", "--absolute-git-dir").decode().strip(), "index"), copies)
        if git("ls-files", "--others", "--exclude-standard", "--", ":/*.py"):
            git("add", "--intent-to-add", "--", ":/*.py", GIT_INDEX_FILE=index)
        difference = git("diff", *_AS_GIT_APPLY_READS_IT, "HEAD", GIT_INDEX_FILE=index)
    return commit, b"# commit %s\n# %s\n%s" % (commit.encode(), state, difference)
