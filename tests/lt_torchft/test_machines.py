"""Three replicas and the lighthouse, each on a machine of its own: network namespaces on one switch.

All have the name of this machine, which says nothing of where they are; no variable but the lighthouse's is set.
"""

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch

sys.path.insert(0, str(HERE := Path(__file__).parent))
from test_kills import NAMES, PATIENCE, Job, check_logs, check_samples

TIMEOUT = 5  # seconds after which an exchange with a machine that is not there any more fails
LONGER = float(os.environ.get("LT_CUT", "0"))  # seconds that a machine stays cut off when the others have gone on
REPLICA = (
    "import sys, replica; from pathlib import Path; folder, name, address, kind, *numbers = sys.argv[1:]; "
    "replica.start(Path(folder), name, address, kind, *map(int, numbers))"
)
PORT = 29600  # where the ranks of a replica meet, each replica's on its own machine


def ip(*arguments):
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


class Process(subprocess.Popen):
    """What a job calls of multiprocessing's."""

    def is_alive(self):
        return self.poll() is None

    def join(self, timeout=None):
        self.wait(timeout)

    @property
    def exitcode(self):
        return self.poll()


class Machines:
    """Namespaces, each with a cable to one switch."""

    def __init__(self, names):
        self.tag = os.getpid() % 100_000  # of a run that was killed some may be left
        self.names = {name: f"ltft-{self.tag}-{name}" for name in ("switch", *names)}
        self.addresses = {name: f"10.78.0.{number}" for number, name in enumerate(names, 1)}
        self.started = []

    def make(self):
        for space in self.names.values():
            ip("netns", "add", space)
            ip("-n", space, "link", "set", "lo", "up")
        ip("-n", self.names["switch"], "link", "add", "switch", "type", "bridge")
        ip("-n", self.names["switch"], "link", "set", "switch", "up")
        for name, address in self.addresses.items():
            here, there = ("-n", self.names[name]), ("-n", self.names["switch"])
            ip(*here, "link", "add", "cable", "type", "veth", "peer", "name", name, "netns", self.names["switch"])
            ip(*there, "link", "set", name, "master", "switch")
            ip(*there, "link", "set", name, "up")
            ip(*here, "addr", "add", f"{address}/24", "dev", "cable")
            ip(*here, "link", "set", "cable", "up")

    def start(self, name, *command, **arguments):
        self.started.append(Process(["ip", "netns", "exec", self.names[name], *command], **arguments))
        return self.started[-1]

    def kill(self, name):
        for pid in ip("netns", "pids", self.names[name]).split():
            os.kill(int(pid), signal.SIGKILL)

    def cable(self, name, state):
        ip("-n", self.names["switch"], "link", "set", name, state)

    def remove(self):
        for name, space in self.names.items():
            if Path("/run/netns", space).exists():
                self.kill(name)
                ip("netns", "delete", space)
        for process in self.started:
            process.wait(PATIENCE)


class JobOnMachines(Job):
    """A job whose replicas live in namespaces of their names."""

    def __init__(self, folder, address, kind, machines):
        self.kind, self.machines = kind, machines
        super().__init__(folder, address, kind, None)

    def start(self, name):
        command = (sys.executable, "-c", REPLICA, str(self.folder), name, self.address, self.kind)
        self.processes[name] = [
            self.machines.start(
                name,
                *command,
                str(rank),
                str(PORT + self.deaths),
                str(TIMEOUT),
                env={**os.environ, "PYTHONPATH": str(HERE)},
            )
            for rank in range(self.ranks)
        ]

    def start_lighthouse(self):
        command = str(Path(sys.executable).with_name("torchft_lighthouse"))
        patience = ("--join_timeout_ms", "1000", "--quorum_tick_ms", "20", "--heartbeat_timeout_ms", "1000")
        self.machines.start("lighthouse", command, "--bind", "0.0.0.0:29510", "--min_replicas", "2", *patience)

    def lose(self, name):
        """Kill all that runs on a machine."""
        self.machines.kill(name)
        for process in self.processes[name]:
            process.join(PATIENCE)
        self.deaths += 1

    def wait_for_steps(self, names, count):
        """Wait until replicas have taken so many steps more."""
        before = {name: len(self.taken(name)) for name in names}
        for name in names:
            self.wait(f"{name} trains", lambda name=name: len(self.taken(name)) >= before[name] + count)

    def taken(self, name):
        return [note for note in self.notes(name) if note[0] == "trained"]


@pytest.fixture
def machines():
    if sys.platform != "linux" or os.geteuid() != 0 or shutil.which("ip") is None:
        pytest.skip("needs Linux, root and ip, for network namespaces")
    machines = Machines(("lighthouse", *NAMES))
    try:
        machines.make()
    except subprocess.CalledProcessError as error:
        machines.remove()
        pytest.skip(f"needs network namespaces, which cannot be made here: {error.stderr.strip()}")
    yield machines
    machines.remove()


@pytest.fixture
def job(request, machines, tmp_path):
    job = JobOnMachines(tmp_path, f"http://{machines.addresses['lighthouse']}:29510", request.param, machines)
    job.start_lighthouse()
    yield job
    job.close()


@pytest.mark.skipif("LT_KILLS" not in os.environ, reason="takes minutes; LT_KILLS=1 runs it")
@pytest.mark.parametrize("job", ["step", "hsdp"], indirect=True)
def test_machines_that_are_lost_or_cut_off_come_back_to_the_others_weights_also_that_of_the_lighthouse(job, machines):
    job.wait_for_steps(NAMES, 3)

    job.lose("three")  # in whatever it was
    job.wait_for_steps(["one", "two"], 3)
    job.start("three")
    job.wait_for_steps(NAMES, 3)

    machines.cable("two", "down")
    began = time.monotonic()
    job.wait_for_steps(["one", "three"], 5)
    print(f"the others went on after {time.monotonic() - began:.1f} s")
    time.sleep(LONGER)
    machines.cable("two", "up")
    began = time.monotonic()
    job.wait_for_steps(NAMES, 3)
    print(f"all train again after {time.monotonic() - began:.1f} s")

    machines.kill("lighthouse")
    job.start_lighthouse()
    job.wait_for_steps(NAMES, 3)

    ended = job.end()
    for other in ended[1:]:
        for key, value in ended[0].items():
            assert torch.equal(other[key], value), key
    check_samples(job, int(ended[0]["step"]))
    check_logs(job)
