"""Scripts in a fork of the test's process, which has imported torch: 0.2 s of processor time each, not 5.

``run`` is ``subprocess.run`` for ``[sys.executable, ...]``. The script has the parent, folder, variables, streams,
session, arguments, exit status and ``__main__`` that it would have. The first Pythons that it starts with subprocess,
as the launcher of scripts does, are forks as well, of what the script was at its start. Not those of a new process are
the modules that are there already, and the teardown of the interpreter. Where these matter, take ``subprocess``.

``LT_FRESH=1 uv run nox -s tests-ddp`` starts a new Python for each, as a user does.

    from tests import warm

    done = warm.run([sys.executable, str(JOB), str(folder)], env=environment)
    assert done.returncode == 0, done.stderr
"""

import atexit
import faulthandler
import fcntl
import io
import json
import logging
import multiprocessing.process
import multiprocessing.util
import os
import random
import runpy
import signal
import socket
import subprocess
import sys
import threading
import types
import warnings
import weakref
from contextlib import suppress
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, NoReturn

import torch
from tests import processes

_spawnv_passfds = multiprocessing.util.spawnv_passfds
FRESH = (
    "LT_FRESH" in os.environ
    or not hasattr(os, "fork")
    or torch.accelerator.is_available()  # no fork can use a device that the test's process has used
    or find_spec("torch_xla") is not None
)
SEED = 67280421310721  # torch's, in a new process
FILTERS = [  # Python's own, the last one first
    "ignore::ResourceWarning",
    "ignore::ImportWarning",
    "ignore::PendingDeprecationWarning",
    "ignore::DeprecationWarning",
    "default::DeprecationWarning:__main__",
]


class Popen(subprocess.Popen):
    """subprocess's, whose child is a fork: of this process, or in a script of the one that it was at its start."""

    owner: ClassVar[int] = 0
    spares: ClassVar[list[tuple[int, socket.socket]]] = []

    def _execute_child(self, args, *more):
        cwd, env = more[4:6]
        pipes = more[9:15]
        if FRESH or isinstance(args, (str, bytes)) or args[0] != sys.executable:
            return super()._execute_child(args, *more)
        if self.owner and not _has_spare():
            return super()._execute_child(args, *more)
        streams = {own: own if given == -1 else given for own, given in enumerate((pipes[0], pipes[3], pipes[5]))}
        self.pid = _start(args, cwd, env, streams, session=more[20])
        self._child_created = True
        self._close_pipe_fds(*pipes)
        return None


def run(command, **how):
    """Run a command to its end, as subprocess's does."""
    return processes.run(command, start=Popen, **how)


def spawnv_passfds(path, args, passfds):
    """multiprocessing's way to start a process by ``spawn``, in its ``util``."""
    command = [os.fsdecode(word) for word in args]
    if FRESH or "spawn_main" not in " ".join(command) or (Popen.owner and not _has_spare()):
        return _spawnv_passfds(path, args, passfds)
    nothing = os.open(os.devnull, os.O_RDONLY)
    try:
        return _start(command, None, None, {0: nothing, 1: 1, 2: 2, **{number: number for number in passfds}})
    finally:
        os.close(nothing)


def _has_spare() -> bool:
    return Popen.owner == os.getpid() and bool(Popen.spares)


def _start(command, folder, environment, streams, session=False) -> int:
    """Have a fork become a command, with files by their numbers there; return its pid."""
    pid, spare = Popen.spares.pop() if Popen.owner else _fork()
    order = {
        "command": [str(word) for word in command],
        "folder": str(folder or Path.cwd()),
        "environment": dict(os.environ if environment is None else environment),
        "session": session,
        "files": list(streams),
    }
    with spare:
        socket.send_fds(spare, [b"!"], list(streams.values()))
        spare.sendall(json.dumps(order).encode())
    return pid


def _fork() -> tuple[int, socket.socket]:
    """Fork this process; return the fork, which waits to be told what it is, and the way to tell it."""
    if not Popen.owner:
        _import_what_scripts_use()
    here, there = socket.socketpair()
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid:
        there.close()
        return pid, here
    here.close()
    for _, other in Popen.spares:
        other.close()
    Popen.spares = []
    if Popen.owner:
        raise _Forked(there)
    try:
        while True:
            try:
                _wait(there)
            except _Forked as fork:
                there = fork.orders
    finally:
        os._exit(70)


@cache
def _import_what_scripts_use() -> None:
    """Import once what the first optimizer and a Trainer do."""
    torch.optim.SGD([torch.zeros(1)])
    with suppress(ImportError):
        from lt import LightningModule, Trainer  # noqa: F401  (where lt is installed)


class _Forked(BaseException):
    """Unwinds a spare to where all scripts begin: lt tells calls apart by the lines that led there."""

    def __init__(self, orders: socket.socket) -> None:
        self.orders = orders


def _wait(orders: socket.socket) -> NoReturn:
    """Wait without holding anything of the parent's open; end where it does."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):  # of the group
        signal.signal(number, signal.SIG_IGN)
    nothing = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(nothing, number)
    os.close(nothing)
    told, files, _, _ = socket.recv_fds(orders, 1, 16)
    if not told:
        os._exit(0)
    with orders, orders.makefile("rb") as rest:
        order = json.loads(rest.read())
    above = [fcntl.fcntl(file, fcntl.F_DUPFD, 500) for file in files]  # those that they will be
    for file in files:
        os.close(file)
    for number, file in zip(order["files"], above, strict=True):
        os.dup2(file, number)
        os.close(file)
    sys.stdin = sys.__stdin__ = io.TextIOWrapper(io.FileIO(0, closefd=False))
    sys.stdout = sys.__stdout__ = io.TextIOWrapper(io.BufferedWriter(io.FileIO(1, "w", closefd=False)))
    errors = io.BufferedWriter(io.FileIO(2, "w", closefd=False))
    sys.stderr = sys.__stderr__ = io.TextIOWrapper(errors, errors="backslashreplace", line_buffering=True)
    os.environ.clear()
    os.environ.update(order["environment"])
    os.environ.pop("PYTEST_CURRENT_TEST", None)  # with pytest's modules, a sign that this is a test
    os.chdir(order["folder"])
    multiprocessing.process.ORIGINAL_DIR = order["folder"]
    if order["session"]:
        os.setsid()
    _become(order["command"])


def _forget(options: list[str]) -> None:
    """Leave behind what pytest and the tests before have set in this process."""
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP, signal.SIGPIPE, signal.SIGXFSZ}:
        with suppress(OSError, ValueError):
            signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.set_wakeup_fd(-1)
    faulthandler.disable()
    atexit._clear()
    weakref.finalize._registry.clear()
    weakref.finalize._registered_with_atexit = False
    multiprocessing.util._finalizer_registry.clear()
    multiprocessing.process._children.clear()
    atexit.register(multiprocessing.util._exit_function)
    sys.excepthook, sys.unraisablehook = sys.__excepthook__, sys.__unraisablehook__
    threading.excepthook = threading.__excepthook__
    logging.root.handlers.clear()
    logging.root.setLevel(logging.WARNING)
    warnings.resetwarnings()
    warnings._processoptions([*FILTERS, *filter(None, os.environ.get("PYTHONWARNINGS", "").split(",")), *options])
    warnings.showwarning = warnings._showwarning_orig
    warnings._showwarnmsg_impl = lambda message: sys.stderr.write(warnings._formatwarnmsg(message))
    random.seed()
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed()
    torch.manual_seed(SEED)
    for name, module in list(sys.modules.items()):  # a test may have imported the script, or modules beside it
        if "/jobs/" in str(getattr(module, "__file__", None) or ""):
            del sys.modules[name]


def _become(command: list[str]) -> NoReturn:
    """Run a command of this Python to its end, and end as it does."""
    words, options = command[1:], []
    while words[0].startswith("-") and words[0] not in ("-c", "-m"):
        options += [words.pop(1)] if words[0] == "-W" else []  # the others have no effect here
        words.pop(0)
    _forget(options)
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    is_script = words[0] not in ("-c", "-m")
    is_first, Popen.owner = Popen.owner == 0, os.getpid()
    # of a script, the watcher of its ranks, or two ranks, as of a watcher or torchrun
    for _ in range(2 if is_first or not (is_script or "spawn_main" in words[1]) else 0):
        Popen.spares.append(_fork())
    sys.argv, sys.orig_argv = words, command
    subprocess.Popen, multiprocessing.util.spawnv_passfds = Popen, spawnv_passfds
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    status: Any = 0
    try:
        try:
            if words[0] == "-c":
                sys.argv = ["-c", *words[2:]]
                exec(compile(words[1], "<string>", "exec"), main.__dict__)
            elif words[0] == "-m":
                sys.argv = words[1:]
                runpy._run_module_as_main(words[1])
            else:
                path = Path(words[0]).resolve()
                sys.path.insert(0, str(path.parent))
                main.__file__ = words[0]
                exec(compile(path.read_bytes(), words[0], "exec"), main.__dict__)
        except SystemExit as error:
            status = error.code
            if status is not None and not isinstance(status, int):
                print(status, file=sys.stderr)
                status = 1
        except BaseException as error:
            trace = error.__traceback__.tb_next
            sys.excepthook(type(error), error.with_traceback(trace), trace)
            status = -signal.SIGINT if isinstance(error, KeyboardInterrupt) else 1
        threading._shutdown()
        atexit._run_exitfuncs()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):
                stream.flush()
        if status == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit((status or 0) & 0xFF)
