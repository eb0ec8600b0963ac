"""Runs scripts in forks of one process, so that what all of them import takes its four seconds once.

A line of standard input is an order, ``{"command": [script, argument, ...], "folder": ..., "streams": [path, path]}``,
and its answer on standard output the exit status. The script is ``__main__``, with its own arguments, folder, streams
and ``sys.path``. Only third parties are there already: each script imports lt itself.
"""

import atexit
import importlib
import json
import os
import sys
from pathlib import Path
from types import ModuleType

status = 0


@atexit.register  # before that of any library, so that it comes last
def end_at_once():
    """Leave out the teardown of modules, which takes two seconds where their memory is shared with another process."""
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


for library in ("sklearn.datasets", "torch._dynamo", "torchvision"):  # the first optimizer imports torch._dynamo
    importlib.import_module(library)


def fork_for_order():
    """Answer orders until there are no more; return the next one in a fork of its own."""
    for line in sys.stdin:
        if child := os.fork():
            print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
        else:
            return json.loads(line)
    sys.exit()


order = fork_for_order()
for stream, path in enumerate([os.devnull, *order["streams"]]):
    file = os.open(path, os.O_WRONLY | os.O_CREAT if stream else os.O_RDONLY)
    os.dup2(file, stream)
    os.close(file)
os.chdir(order["folder"])
sys.argv[:] = order["command"]
sys.orig_argv[:] = [sys.executable, *sys.argv]
sys.path[0] = str(Path(sys.argv[0]).parent)
main = sys.modules["__main__"] = ModuleType("__main__")
main.__file__ = sys.argv[0]
status = 1
try:
    exec(compile(Path(sys.argv[0]).read_bytes(), sys.argv[0], "exec"), main.__dict__)
    status = 0
except SystemExit as ended:
    status = int(bool(ended.code))
    raise
