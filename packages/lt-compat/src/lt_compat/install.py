"""Lightning's module names answered by lt, so that scripts and packages built on Lightning run unchanged.

``python -m lt.compat script.py`` runs a script so; :func:`install` does it for the present process. Lightning need not
be installed; where it is, it is not imported.
"""

from __future__ import annotations

import importlib.util
import logging
import os
import re
import runpy
import shutil
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import Distribution, DistributionFinder
from pathlib import Path
from types import ModuleType
from typing import Any

from lt_compat.names.counterparts import ROOTS, counterpart, module_in_lt, path_below_root, why_gone
from lt_compat.names.elsewhere import BEFORE, imported, origin_of
from lt_compat.names.stand_ins import is_public, modules, stand_in

__all__ = ["VERSION", "install", "main"]

VERSION = "2.5.0"
"""The version of Lightning that lt stands in for."""

_TOP = frozenset(root.partition(".")[0] for root in ROOTS)
_PACKAGES = ("pytorch-lightning", "lightning", "lightning-fabric")
_FORMER = ("loggers.neptune", "overrides.base", "plugins.precision.precision_plugin", "utilities.argparse")
"""Module paths of Lightning 2.0 and 1.x that packages still try; their names are 2.6's, or stand in."""

_READ_FILES = ("CheckpointIO", "LightningDataModule", "LightningModule", "TorchCheckpointIO")
"""Classes that read checkpoints."""

_USAGE = """usage: python -m lt.compat [--pickle] SCRIPT [ARGUMENT]...
       python -m lt.compat [--pickle] -m MODULE [ARGUMENT]...

Run a script, a module or the command of an installed package that imports lightning or pytorch_lightning, on lt.

--pickle  for packages that put objects of theirs into checkpoints: these are written as Lightning writes them, and
          all checkpoints are read even if they can run code. Only with files that you made yourself."""


def install() -> None:
    """Answer ``import pytorch_lightning``, ``lightning`` and ``lightning_fabric`` from now on, in this process.

    Raises:
        RuntimeError: when one of them is imported already.
    """
    if any(isinstance(finder, _Finder) for finder in sys.meta_path):
        return
    imported = sorted(_TOP & sys.modules.keys())
    if imported:
        raise RuntimeError(
            f"{imported[0]} is imported already, so lt cannot answer for it. Call lt.compat.install() first. [LT168]"
        )
    sys.meta_path.insert(0, _Finder())


def main(words: Sequence[str] | None = None) -> int:
    """Run a script or module with Lightning's names answered by lt; return the exit status.

    Args:
        words: script and arguments, or ``-m``, module and arguments; default: this process's command line.
    """
    given = list(sys.argv[1:] if words is None else words)
    if not given or given[0] in ("-h", "--help"):
        print(_USAGE)
        return 0 if given else 2
    if given[0] == "--pickle":
        from lt_compat.lightning.pickled_checkpoints import use_pickles

        use_pickles()
        print(
            "--pickle: checkpoints hold any object, and reading one can run code: only your own files.", file=sys.stderr
        )
        given = given[1:]
    if given in ([], ["-m"]):
        print(_USAGE, file=sys.stderr)
        return 2
    install()
    _tell_children()
    if given[0] == "-m":
        sys.argv = given[1:]
        sys.path[0] = os.getcwd()  # noqa: PTH109  (as `python -m` does)
        with _advising():
            runpy.run_module(given[1], run_name="__main__", alter_sys=True)
        return 0
    found = given[0] if Path(given[0]).is_file() else shutil.which(given[0])  # the command of an installed package
    if found is None:
        print(f"python -m lt.compat: there is no file {given[0]!r}. [LT168]", file=sys.stderr)
        return 2
    sys.argv = [found, *given[1:]]
    sys.path[0] = str(Path(found).resolve().parent)
    with _advising():
        runpy.run_path(found, run_name="__main__")
    return 0


@contextmanager
def _advising() -> Iterator[None]:
    """Add to the error that ends a script what to write for the name of Lightning's that it imports."""
    try:
        yield
    except ImportError as error:
        imported = re.match(r"cannot import name '(\w+)'", error.msg)
        fullname = f"{error.name}.{imported[1]}" if imported else error.name or ""
        outer, _, name = (path_below_root(fullname) or "").rpartition(".")
        if name and (advice := why_gone(outer, name)):
            error.add_note(f"lt has no counterpart of {fullname}: {advice}. [LT168]")
        raise


def _tell_children() -> None:
    """Have Python processes that this one starts answer the names too: spawned workers, further ranks."""
    folder = str(Path(__file__).parent / "site")
    inherited = os.environ.get("PYTHONPATH", "")
    if folder not in inherited.split(os.pathsep):
        os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, (folder, inherited)))


class _Finder(MetaPathFinder):
    """Finds the modules that lt answers for, and Lightning's version where Lightning is not installed."""

    def find_spec(self, fullname: str, path: Any = None, target: ModuleType | None = None) -> ModuleSpec | None:
        below = path_below_root(fullname)
        if below is None or not _is_answered(below):
            return None  # also where it is gone: code that asks whether it is there gets an answer
        return importlib.util.spec_from_loader(fullname, _Loader(below), is_package=True)

    def find_distributions(self, context: DistributionFinder.Context | None = None) -> Iterator[Distribution]:
        """Yield a stand-in for a distribution of Lightning that is asked for by name and is not installed."""
        name = (context.name or "").replace("_", "-").lower() if context else ""
        if context is None or name not in _PACKAGES or any(True for _ in _installed(context)):
            return
        yield _Distribution(name)


class _Loader(Loader):
    """Makes the modules."""

    def __init__(self, below: str) -> None:
        self.below = below

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return _Answer(spec.name, self.below)

    def exec_module(self, module: ModuleType) -> None:
        """Do what importing Lightning does beside; names are looked up when they are asked for."""
        if module.__name__ in _TOP:
            _as_imported(module.__name__)


class _Answer(ModuleType):
    """A module of Lightning: its names are looked up in lt."""

    def __init__(self, name: str, below: str) -> None:
        super().__init__(name, f"Names of {name}, answered by lt.")
        self._below = below
        self.__version__ = VERSION
        self.__file__ = "<answered by lt.compat>"
        table = import_module(module) if (module := module_in_lt(below)) else None
        self.__all__ = [*getattr(table, "__all__", ())]

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        value = self._look_up(name)
        setattr(self, name, value)
        return value

    def __dir__(self) -> Iterable[str]:
        return sorted({*super().__dir__(), *self.__all__})

    def _look_up(self, name: str) -> Any:
        below = f"{self._below}.{name}" if self._below else name
        if self.__name__ in ROOTS and f"{self.__name__}.{name}" in ROOTS:
            return import_module(f"{self.__name__}.{name}")
        if name == "Trainer":
            from lt_compat.lightning.trainer import trainer_class

            return trainer_class()
        place = "fabric" if "fabric" in self.__name__ else self._below
        if origin := BEFORE.get(f"{place}:{name}") or BEFORE.get(name):
            return _imported(origin)
        found = counterpart(self._below, name)
        if found is not None and found.name:
            value = _imported(f"{found.module}:{found.name}")
            return _trusting(value) if name in _READ_FILES else value
        small = import_module("lt_compat.lightning.utilities")
        if small.answers(name):
            return getattr(small, name)
        if _is_answered(below):
            return import_module(f"{self.__name__}.{name}")
        if origin := origin_of(name):
            return _imported(origin)
        advice = why_gone(self._below, name)
        if is_public(self._below, name):
            return stand_in(name, advice)
        if self._below and not advice and (origin := imported(name)):
            return _imported(origin)
        raise AttributeError(
            f"lt has no counterpart of {self.__name__}.{name}{f': {advice}' if advice else ''}. [LT168]",
            name=name,
            obj=self,
        )


class _FabricOfModule:
    """``module.fabric``: the Fabric that the module is set up with; None in a Trainer. A module may have its own."""

    def __get__(self, module: Any, kind: type) -> Any:
        placed_by = getattr(getattr(module, "_trainer", None), "_fabric", None)
        return placed_by and placed_by()


class _Distribution(Distribution):
    """The answer of ``importlib.metadata.version("lightning")`` where Lightning is not installed."""

    def __init__(self, name: str) -> None:
        self._given = name

    def read_text(self, filename: str) -> str | None:
        return f"Metadata-Version: 2.1\nName: {self._given}\nVersion: {VERSION}\n" if filename == "METADATA" else None

    def locate_file(self, path: Any) -> Path:
        return Path(path)


def _as_imported(top: str) -> None:
    """Change the process as ``import lightning`` or ``import pytorch_lightning`` (2.6.6) changes it.

    Left out are the filters and the format of its own warnings, and its filter for torch's first FSDP.
    """
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # torch.cuda.is_available() leaves a process that may fork
    for root in ROOTS:
        if root.partition(".")[0] != top:
            continue
        logger = logging.getLogger(root)
        logger.setLevel(logging.INFO)
        if root == "lightning" or not logging.getLogger().hasHandlers():
            logger.addHandler(logging.StreamHandler())
            logger.propagate = root == "lightning"
    import_module("lt_compat.lightning.error_types").caught_by_lightnings_types()
    import_module("lt_core.module").LightningModule.fabric = _FabricOfModule()
    import_module("lt_compat.lightning.loops").count_each_step()
    with suppress(ImportError):
        utilities = import_module("lightning_utilities.core.rank_zero")
        ours: Any = import_module("lt_compat.lightning.rank_zero").rank_zero_only
        utilities.rank_zero_only.rank = ours.rank  # for who imported it before; its code looks up the name
        utilities.rank_zero_only = ours  # type: ignore[attr-defined]


def _trusting(base: type) -> type:
    """Return a class that reads checkpoints as it is, or one that trusts them where they hold any object."""
    from lt_compat.lightning.pickled_checkpoints import PickledCheckpointIO, pickles
    from lt_compat.lightning.trainer import trusting

    if not pickles():
        return base
    return PickledCheckpointIO if hasattr(base, "save_checkpoint") else trusting(base)


def _imported(origin: str) -> Any:
    module, _, attribute = origin.partition(":")
    return getattr(import_module(module), attribute)


def _is_answered(below: str) -> bool:
    return not below or below in modules() or below in _FORMER or module_in_lt(below) is not None


def _installed(context: DistributionFinder.Context) -> Iterable[Distribution]:
    found: Iterable[Distribution] = PathFinder.find_distributions(context)
    return found
