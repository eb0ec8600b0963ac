"""Whether this machine lets us make network namespaces: two nodes on one machine need them.

The session `multinode` asks before it runs any test, so that it is listed as skipped where they are lacking.
"""

import os
import shutil
import subprocess
import sys


def missing_namespaces() -> str:
    """Return what is lacking, in words that begin with "needs"; empty where nothing is."""
    if sys.platform != "linux" or os.geteuid() != 0:
        return "needs Linux and root, for network namespaces"
    if shutil.which("ip") is None:
        return "needs ip (Debian's iproute2), for network namespaces"
    name = f"lt-probe-{os.getpid()}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"needs network namespaces, which cannot be made here: {made.stderr.strip()}"
    tied = ["ip", "-n", name, "link", "add", "lt-probe", "type", "veth"]
    joined = subprocess.run(tied, capture_output=True, text=True, check=False)
    subprocess.run(["ip", "netns", "delete", name], check=True)
    return f"needs network namespaces with a cable: {joined.stderr.strip()}" if joined.returncode else ""
