"""Two nodes on one machine: two network namespaces with a torchrun in each, and a third one that joins them."""

import json
import os
import re
import runpy
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

import pytest
import torch
from tests.namespaces import missing_namespaces
from tests.patience import PATIENCE
from torch import nn

JOBS = Path(__file__).parent / "jobs"
PID = os.getpid()  # a run that was killed leaves its namespaces behind, which must not stand in another's way
NODES = ((f"lt-{PID}-a", f"lt-{PID}-a", "10.77.0.1"), (f"lt-{PID}-b", f"lt-{PID}-b", "10.77.0.2"))
HUB, HUB_ADDRESS = f"lt-{PID}-hub", "10.77.0.3"  # a switch, on which no worker runs
NAMESPACES = (HUB, *(name for name, _, _ in NODES))
PORT = 29400
# a node that says nothing for 5 s is lost; with fewer nodes than the most, a round waits 3 s for others
QUICK = "keep_alive_interval=1,keep_alive_max_attempt=5,last_call_timeout=3"
# what docs/how-to/multi-node.md says of a rendezvous on a machine of its own
STORE = f"""
import signal, torch.distributed as dist
store = dist.TCPStore("0.0.0.0", {PORT}, is_master=True, wait_for_workers=False)
signal.pause()
"""
STARTED: list[subprocess.Popen[bytes]] = []

pytestmark = pytest.mark.multinode


def ip(*arguments: str) -> str:
    return subprocess.run(["ip", *arguments], check=True, capture_output=True, text=True).stdout


def processes_of(number: int) -> list[int]:
    """Return the pids on a node: its torchrun and the workers of that."""
    return pids_in(NODES[number][0])


def pids_in(namespace: str) -> list[int]:
    return [int(pid) for pid in ip("netns", "pids", namespace).split()]


def kill_node(number: int) -> None:
    kill_all_in(NODES[number][0])


def kill_all_in(namespace: str) -> None:
    for pid in pids_in(namespace):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


@pytest.fixture
def nodes():
    """Make the namespaces; kill what is left in them and take them away again."""
    if reason := missing_namespaces():
        pytest.skip(reason)
    try:
        for name in NAMESPACES:
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", HUB, "link", "add", HUB, "type", "bridge")
        for name, cable, address in NODES:
            ip("-n", name, "link", "add", cable, "type", "veth", "peer", "name", cable, "netns", HUB)
            ip("-n", HUB, "link", "set", cable, "master", HUB, "up")
            ip("-n", name, "addr", "add", f"{address}/24", "dev", cable)
            ip("-n", name, "link", "set", cable, "up")
        ip("-n", HUB, "addr", "add", f"{HUB_ADDRESS}/24", "dev", HUB)
        ip("-n", HUB, "link", "set", HUB, "up")
        yield NODES
    finally:
        for name in NAMESPACES:
            if Path("/run/netns", name).exists():
                kill_all_in(name)
                ip("netns", "delete", name)
        while STARTED:
            STARTED.pop().wait(timeout=PATIENCE)


def torchrun(
    number: int,
    folder: Path,
    *script: str,
    nnodes: str = "2",
    restarts: int = 0,
    meet_at: str = NODES[0][2],
    **environment: str,
) -> subprocess.Popen[bytes]:
    """Start a node; what it says goes to the file ``said-NUMBER`` in the folder."""
    name, cable, address = NODES[number]
    command = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"]
    command += [
        f"--nnodes={nnodes}",
        "--nproc-per-node=1",
        f"--max-restarts={restarts}",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={meet_at}:{PORT}",
        "--rdzv-id=lt",
        f"--rdzv-conf=is_host={int(meet_at == address)},{QUICK}",
        f"--local-addr={address}",
        *script,
    ]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LT_"))}
    here = {"GLOO_SOCKET_IFNAME": cable, "OMP_NUM_THREADS": "1", "FACTS": str(folder)}
    with (folder / f"said-{number}").open("a") as said:
        job = subprocess.Popen(command, env={**kept, **here, **environment}, stdout=said, stderr=subprocess.STDOUT)
    STARTED.append(job)
    return job


def ended(jobs, folder):
    """Wait for the nodes to end well; return what each said."""
    for job in jobs:
        job.wait(timeout=PATIENCE)
    said = [path.read_text() for path in sorted(folder.glob("said-*"))]
    assert [job.returncode for job in jobs] == [0] * len(jobs), "\n".join(said)
    return said


@pytest.mark.slow
def test_a_job_whose_worker_fails_on_one_node_goes_on_on_both(nodes, tmp_path):
    """Each agent counts restarts for itself: after this failure it is 0 on the first node and 1 on the second."""
    script = (str(JOBS / "steps.py"), "script", "raise-once", "1")
    said = ended([torchrun(number, tmp_path, *script, restarts=2) for number in (0, 1)], tmp_path)
    assert "boom, once" in said[1]
    lines = [re.findall(r"rank (\d) of 2: (-?[\d.]+)", text) for text in said]
    assert [{rank for rank, _ in found} for found in lines] == [{"0"}, {"1"}]
    assert [value for _, value in lines[0]][-2:] == [value for _, value in lines[1]][-2:]


class Elastic:
    """The job of jobs/elastic.py on both nodes, which meet at a store on neither; and what it has written down."""

    def __init__(self, folder: Path, *holds: str, **environment: str) -> None:
        self.folder = folder
        self.environment = {"HOLDS": " ".join(holds), "TORCH_DISABLE_SHARE_RDZV_TCP_STORE": "1", **environment}
        STARTED.append(subprocess.Popen(["ip", "netns", "exec", HUB, sys.executable, "-c", STORE]))
        self.agents = [self.start(number) for number in (0, 1)]

    def start(self, number):
        script = str(JOBS / "elastic.py")
        return torchrun(number, self.folder, script, nnodes="1:2", restarts=3, meet_at=HUB_ADDRESS, **self.environment)

    def told(self, name):
        path = self.folder / name
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    def wait_for(self, found):
        """Return what ``found()`` returns as soon as there is something; fail where the first node ends before."""
        end = time.monotonic() + PATIENCE
        while not (answer := found()):
            text = "".join(path.read_text() for path in sorted(self.folder.glob("said-*")))
            assert self.agents[0].poll() is None, text
            assert time.monotonic() < end, text
            time.sleep(0.05)
        return answer

    def held(self, at, not_in=0):
        """Wait until all ranks of a run, another one than ``not_in``, hold; return them by node."""
        world = int(at[-1])

        def found():
            last = [rank for rank in self.told("held") if rank["at"] == at][-world:]
            lives = {rank["life"] for rank in last}
            return last if len(last) == world and len(lives) == 1 and not_in not in lives else None

        ranks = self.wait_for(found)
        return sorted(ranks, key=lambda rank: rank["pid"] in processes_of(1))

    def go_on(self, at):
        (self.folder / f"go-{at}").touch()

    def steps(self):
        """Return the samples of each step, and its epoch, as the last run that took it read them."""
        by_life = {}
        for line in self.told("steps"):
            lives = by_life.setdefault((line["epoch"], line["step"]), {})
            lives.setdefault(line["life"], []).extend(line["samples"])
        return {place: list(lives.values())[-1] for place, lives in sorted(by_life.items())}


def fit_by_hand(steps):
    """Train on the samples of each step in one process, by plain torch; return the weights."""
    job = runpy.run_path(str(JOBS / "elastic.py"))
    table = job["table"]()
    torch.manual_seed(1)
    net = job["Net"]()
    optimizer = net.configure_optimizers()
    for samples in steps.values():
        x, y, _ = table[samples]
        optimizer.zero_grad()
        nn.functional.mse_loss(net.layers(x), y).backward()
        optimizer.step()
    return net.state_dict()


def check_numbers(job):
    """All steps are there, of the same global batch, and see each sample once; the weights are those by hand."""
    steps = job.steps()
    assert [step for _, step in steps] == list(range(12))
    assert [len(samples) for samples in steps.values()] == [8, 8, 8, 8, 8, 4] * 2
    for epoch in (0, 1):
        assert sorted(n for place, samples in steps.items() if place[0] == epoch for n in samples) == list(range(44))
    end = torch.load(job.folder / "end")
    assert end["steps"] == 12
    torch.testing.assert_close(end["weights"], fit_by_hand(steps), rtol=1e-6, atol=1e-6)


def test_workers_and_nodes_also_the_first_that_are_killed_stopped_and_come_back_change_no_number(nodes, tmp_path):
    pytest.importorskip("lt")
    # a node that has to wait too long for the other one begins alone: there it is held until the other has come
    alone = ("5.0@1", "10.0@1")
    job = Elastic(tmp_path, "3.1@2", "5.0@2", "7.1@2", "9.0@1", "10.1@2", *alone)

    first, second = job.held("3.1@2")
    os.kill(second["pid"], signal.SIGKILL)  # the worker of the second node; its torchrun starts another
    job.go_on("3.1@2")
    restarted = job.held("5.0@2", not_in=first["life"])

    os.kill(restarted[1]["pid"], signal.SIGSTOP)  # stands still, and the other one waits
    job.go_on("5.0@2")
    begun = job.wait_for(lambda: [line for line in job.told("steps") if line["step"] == 5])
    assert {line["pid"] for line in begun} == {restarted[0]["pid"]}
    os.kill(restarted[1]["pid"], signal.SIGCONT)
    same = job.held("7.1@2")  # nobody started again
    assert [rank["pid"] for rank in same] == [rank["pid"] for rank in restarted]

    kill_node(1)  # torchrun and worker
    job.agents[1].wait(timeout=PATIENCE)
    job.go_on("7.1@2")
    job.held("9.0@1")  # the first node goes on alone

    job.agents[1] = job.start(1)  # SIGTERM ends the worker that holds, when the step is done, and both go on
    first, second = job.held("10.1@2")
    assert (first["rank"], second["rank"]) == (0, 1)

    kill_node(0)
    job.agents[0].wait(timeout=PATIENCE)
    job.go_on("10.0@1")
    job.go_on("10.1@2")
    ended(job.agents[1:], tmp_path)  # the second node goes on alone
    assert {line["world"] for line in job.told("steps") if line["step"] == 11} == {1}

    check_numbers(job)


@pytest.mark.slow
def test_a_node_that_is_cut_off_closes_no_connection_and_the_other_goes_on_alone(nodes, tmp_path):
    pytest.importorskip("lt")
    job = Elastic(tmp_path, "3.1@2", TIMEOUT="20")
    job.held("3.1@2")
    ip("-n", HUB, "link", "set", NODES[0][1], "down")  # rank 0's, which holds the store of the ranks
    job.go_on("3.1@2")
    said = ended(job.agents[1:], tmp_path)
    assert "Rank 0 of 2 or its node is gone: the job's store, which is there, does not answer." in said[1]
    check_numbers(job)
