"""Python processes that tests start, forked from one that has imported torch: 0.2 s of processor time each, not 4.

    from tests.processes import Popen, run

    done = run([sys.executable, "script.py"], cwd=folder, capture_output=True, text=True)

`run` and `Popen` take what those of `subprocess` take. The process is like a new one with torch and torch._dynamo in
`sys.modules`: nothing of the test's is in it, and it has its own `__main__`, arguments, environment, folder, streams,
signals and end. What a fork cannot have (other flags than -c, -m, -W, variables that Python or torch read when they
start, `preexec_fn`) is executed, as everything is where there is no Linux, and with ``LT_FRESH=1``. Tests of what is
imported, or of a command line that the system shows, use `subprocess`; scripts that start ranks use `tests.warm`, whose
forks have the modules of the test's process: lt.compat, and how an interpreter ends, need a process without them.
"""

import array
import atexit
import ctypes
import inspect
import os
import pickle
import select
import selectors
import socket
import subprocess
import sys
import threading
import warnings
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

ENVIRONMENT = dict(os.environ)
READ_AT_START = ("PYTHON", "TORCH", "PYTORCH", "OMP", "MKL", "LD_", "MALLOC")
TAKEN_LATER = {"PYTHONPATH", "PYTHONUNBUFFERED", "PYTHONWARNINGS", "OMP_NUM_THREADS"}
# what a fit on ranks, lt.compat and torch's compiler leave in os.environ, and torch reads where it uses it
TAKEN_LATER |= {"TORCH_GLOO_LAZY_INIT", "PYTORCH_NVML_BASED_CUDA_CHECK", "TORCHINDUCTOR_CACHE_DIR"}


# ------------------------------------------------------------------------------------------------------- in the test


def run(command: list[str], *, timeout: float | None = None, check: bool = False, start: Any = None, **how: Any) -> Any:
    """Do what `subprocess.run` does, without its ``input``; ``start`` is the Popen, by default the one here."""
    if how.pop("capture_output", False):
        how |= {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with (start or Popen)(command, **how) as process:
        try:
            said = process.communicate(timeout=timeout)
        except BaseException:
            process.kill()
            raise
    if check and process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, *said)
    return subprocess.CompletedProcess(command, process.returncode, *said)


class Popen(subprocess.Popen):
    """A Python process that is forked where it can be; its status comes through a pipe, as it is no child of ours."""

    _status: int | None = None

    def _execute_child(self, *given: Any) -> None:
        how = inspect.signature(subprocess.Popen._execute_child).bind(self, *given).arguments
        environment = dict(os.environ if how["env"] is None else how["env"])
        if not can_fork(how, environment):
            super()._execute_child(*given)
            return
        self._status, told = os.pipe()
        streams = [how[name] if how[name] != -1 else i for i, name in enumerate(("p2cread", "c2pwrite", "errwrite"))]
        request = [*map(os.fspath, how["args"][1:])], how["cwd"], environment, how["start_new_session"]
        with LOCK:
            connection = mother()
            fds = array.array("i", [*streams, told])
            connection.sendmsg([pickle.dumps(request)], [(socket.SOL_SOCKET, socket.SCM_RIGHTS, fds)])
            self.pid = int(connection.recv(32))
        os.close(told)
        self._child_created = True
        self._close_pipe_fds(*(how[name] for name in PIPES))

    def _try_wait(self, wait_flags: int) -> tuple[int, int]:
        if self._status is None:
            return super()._try_wait(wait_flags)
        if wait_flags & os.WNOHANG and not is_readable(self._status):
            return 0, 0
        status = int.from_bytes(os.read(self._status, 4), "little")
        os.close(self._status)
        return self.pid, status

    def _internal_poll(self, *given: Any, **named: Any) -> int | None:
        if self._status is None:
            return super()._internal_poll(*given, **named)
        if self.returncode is None:
            pid, status = self._try_wait(os.WNOHANG)
            if pid:
                self._handle_exitstatus(status)
        return self.returncode


LOCK = threading.Lock()
PIPES = ("p2cread", "p2cwrite", "c2pread", "c2pwrite", "errread", "errwrite")


def is_readable(descriptor: int) -> bool:
    poll = select.poll()
    poll.register(descriptor)
    return bool(poll.poll(0))


def can_fork(how: dict[str, Any], environment: dict[str, str]) -> bool:
    """Tell whether a fork can be what is asked for."""
    unusual = any(how[name] for name in ("executable", "preexec_fn", "pass_fds", "shell"))
    if (
        sys.platform != "linux"
        or "LT_FRESH" in os.environ
        or unusual
        or how["process_group"] != -1
        or os.fspath(how["args"][0]) != sys.executable
    ):
        return False
    words = [*map(os.fspath, how["args"][1:])]
    while words[:1] == ["-W"]:
        del words[:2]
    if not words or (words[0].startswith("-") and words[0] not in ("-c", "-m")):
        return False
    left = read_at_start(dict(os.environ), ENVIRONMENT)
    assert not left, f"a test has left {left} in os.environ: all processes of later tests would be executed, not forked"
    return not read_at_start(environment, ENVIRONMENT)


def read_at_start(one: dict[str, str], other: dict[str, str]) -> list[str]:
    """Return the variables that differ and that Python or torch read when they start."""
    changed = {name for name, _ in one.items() ^ other.items()} - TAKEN_LATER
    return sorted(name for name in changed if name.startswith(READ_AT_START))


@cache
def mother() -> socket.socket:
    """Start the process that is forked, once; return what it is told on."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, __file__, str(its.fileno())]
    process = subprocess.Popen(command, pass_fds=[its.fileno()], env=ENVIRONMENT, stdin=subprocess.DEVNULL)
    its.close()

    @atexit.register
    def end() -> None:
        ours.close()
        process.wait()

    return ours


# ------------------------------------------------------------------------------------- in the process that is forked

MADV_COLLAPSE = 25  # Linux 6.1; an older one refuses it


@cache
def use_huge_pages() -> None:
    """Move what this process holds into pages of 2 MB, once: a fork copies their table in 10 ms, not in 60."""
    if sys.platform != "linux":
        return
    size = 2**21
    for line in Path("/proc/self/maps").read_text("utf-8").splitlines():
        place, mode, _, _, _, *name = line.split(maxsplit=5)
        begin, end = (int(address, 16) for address in place.split("-"))
        begin, end = -(-begin // size) * size, end // size * size
        if mode == "rw-p" and name in ([], ["[heap]"]) and begin < end:
            ctypes.CDLL(None).madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), MADV_COLLAPSE)


OTHERS = {*sys.stdlib_module_names, "__main__", "__mp_main__"}


def next_request(connection: socket.socket) -> tuple[list[str], str | None, dict[str, str], bool]:
    """Fork for each request, and tell how each fork ended; return in the fork, which has its streams and session."""
    running: dict[int, tuple[int, int]] = {}  # by pidfd
    with selectors.DefaultSelector() as selector:
        selector.register(connection, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                if key.fileobj is connection:
                    message, ancillary, _, _ = connection.recvmsg(1 << 20, socket.CMSG_SPACE(16))
                    if not message:
                        os._exit(0)
                    fds = array.array("i", ancillary[0][2])
                    if not (pid := os.fork()):
                        break
                    running[os.pidfd_open(pid)] = pid, fds[3]
                    selector.register(max(running), selectors.EVENT_READ)
                    for fd in fds[:3]:
                        os.close(fd)
                else:
                    pid, told = running.pop(key.fd)
                    selector.unregister(key.fd)
                    os.close(key.fd)
                    os.write(told, os.waitpid(pid, 0)[1].to_bytes(4, "little"))
                    os.close(told)
            else:
                continue
            break
    for fd, (_, told) in running.items():
        os.close(fd)
        os.close(told)
    for i, fd in enumerate(fds[:3]):
        os.dup2(fd, i)
    for fd in fds:
        os.close(fd)
    request = pickle.loads(message)
    if request[3]:
        os.setsid()
    connection.send(str(os.getpid()).encode())
    connection.close()
    return request


def begin(words: list[str], folder: str | None, environment: dict[str, str]) -> tuple[str, str, ModuleType]:
    """Be what Python is before it runs `words`; return how it runs (``-c``, ``-m`` or a script), what, and where."""
    import multiprocessing.process

    import torch

    os.environ.clear()
    os.environ.update(environment)
    if folder is not None:
        os.chdir(folder)
    multiprocessing.process.ORIGINAL_DIR = str(Path.cwd())  # where spawn looks for the script
    if "OMP_NUM_THREADS" in environment:
        torch.set_num_threads(int(environment["OMP_NUM_THREADS"]))
    sys.orig_argv = [sys.executable, *words]
    options = [option for option in environment.get("PYTHONWARNINGS", "").split(",") if option]
    while words[0] == "-W":
        options.append(words[1])
        words = words[2:]
    sys.warnoptions[:] = options
    warnings._processoptions(options)
    for stream in (sys.stdout, sys.stderr):
        unbuffered = bool(environment.get("PYTHONUNBUFFERED"))
        lines = stream is sys.stderr or os.isatty(1)
        stream.reconfigure(line_buffering=lines, write_through=unbuffered)
    sys.path[:1] = ["" if words[0] == "-c" else str(Path.cwd()) if words[0] == "-m" else str(Path(words[0]).parent)]
    sys.path[1:1] = [place for place in environment.get("PYTHONPATH", "").split(os.pathsep) if place]
    main = ModuleType("__main__")
    sys.modules.update(dict.fromkeys(("__main__", "__mp_main__"), main))
    main.__builtins__ = __builtins__
    if words[0] in ("-c", "-m"):
        sys.argv[:] = [words[0], *words[2:]]
        return words[0], words[1], main
    sys.argv[:] = words
    main.__file__ = words[0]
    return "", words[0], main


if __name__ == "__main__":
    import gc
    import runpy

    import torch._dynamo  # noqa: F401  (forks have it)

    gc.collect()
    gc.freeze()
    use_huge_pages()
    # half a second of each fork's end would be the end of torch's modules: they stay, out of the interpreter's sight
    torchs = {name: module for name, module in sys.modules.items() if name.split(".")[0] not in OTHERS}
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(torchs))
    atexit.register(lambda: [sys.modules.pop(name, None) for name in torchs])  # the first comes last
    libc = ctypes.CDLL(None)
    libc.on_exit(libc._exit, None)  # before the destructors of libtorch
    request = next_request(socket.socket(fileno=int(sys.argv[1])))
    how, what, main = begin(*request[:3])
    if how == "-m":
        runpy._run_module_as_main(what)
    elif how == "-c":
        exec(what, vars(main))
    else:
        exec(compile(Path(what).read_bytes(), what, "exec"), vars(main))
