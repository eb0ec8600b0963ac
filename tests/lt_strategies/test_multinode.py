"""Two nodes on one machine: two network namespaces joined by a cable, a torchrun in each."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

JOB = Path(__file__).parent / "jobs" / "steps.py"
PID = os.getpid()  # a run that was killed leaves its namespaces behind, which must not stand in another's way
NODES = ((f"lt-{PID}-a", f"lt-{PID}-a", "10.77.0.1"), (f"lt-{PID}-b", f"lt-{PID}-b", "10.77.0.2"))

pytestmark = pytest.mark.multinode


def ip(*arguments: str) -> None:
    subprocess.run(["ip", *arguments], check=True, capture_output=True)


@pytest.fixture
def nodes():
    """Make the two namespaces; take them away again."""
    if shutil.which("ip") is None or os.geteuid() != 0:
        pytest.skip("network namespaces need root and the ip command")
    try:
        for name, _, _ in NODES:
            ip("netns", "add", name)
    except subprocess.CalledProcessError as error:
        pytest.skip(f"network namespaces cannot be made here: {error.stderr.decode().strip()}")
    try:
        ip("link", "add", NODES[0][1], "type", "veth", "peer", "name", NODES[1][1])
        for name, cable, address in NODES:
            ip("link", "set", cable, "netns", name)
            ip("-n", name, "addr", "add", f"{address}/24", "dev", cable)
            ip("-n", name, "link", "set", cable, "up")
            ip("-n", name, "link", "set", "lo", "up")
        yield NODES
    finally:
        for name, _, _ in NODES:
            subprocess.run(["ip", "netns", "delete", name], check=False, capture_output=True)


def torchrun(number: int, folder: Path, *fault: str, options: tuple[str, ...] = ()) -> subprocess.Popen[str]:
    name, cable, address = NODES[number]
    inside = ["ip", "netns", "exec", name, sys.executable, "-m", "torch.distributed.run"]
    rendezvous = [
        "--nnodes=2",
        "--nproc-per-node=1",
        "--rdzv-backend=c10d",
        f"--rdzv-endpoint={NODES[0][2]}:29400",
        "--rdzv-id=lt",
        f"--rdzv-conf=is_host={int(number == 0)}",
        f"--local-addr={address}",
    ]
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST_", "LT_"))}
    return subprocess.Popen(
        [*inside, *rendezvous, *options, str(JOB), "script", *(fault or ("none", "0"))],
        env={**kept, "GLOO_SOCKET_IFNAME": cable, "OMP_NUM_THREADS": "1", "FACTS": str(folder)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_two_nodes_train_together(nodes, tmp_path):
    jobs = [torchrun(number, tmp_path) for number in (0, 1)]
    told = [job.communicate(timeout=PATIENCE) for job in jobs]
    assert [job.returncode for job in jobs] == [0, 0], "\n".join(err for _, err in told)
    print("".join(out for out, _ in told))
    lines = [re.findall(r"rank (\d) of 2: (-?[\d.]+)", out) for out, _ in told]
    assert [rank for rank, _ in lines[0]] == ["0", "0"]
    assert [rank for rank, _ in lines[1]] == ["1", "1"]
    assert [value for _, value in lines[0]] == [value for _, value in lines[1]]


def test_a_job_whose_worker_fails_on_one_node_goes_on_on_both(nodes, tmp_path):
    """Each agent counts restarts for itself: after this failure it is 0 on the first node and 1 on the second."""
    jobs = [torchrun(number, tmp_path, "raise-once", "1", options=("--max-restarts=2",)) for number in (0, 1)]
    try:
        told = [job.communicate(timeout=PATIENCE) for job in jobs]
    finally:
        for job in jobs:
            job.terminate()
            job.wait()
    assert [job.returncode for job in jobs] == [0, 0], "\n".join(err for _, err in told)
    assert "boom, once" in told[1][1]
    lines = [re.findall(r"rank (\d) of 2: (-?[\d.]+)", out) for out, _ in told]
    assert [{rank for rank, _ in found} for found in lines] == [{"0"}, {"1"}]
    assert [value for _, value in lines[0]][-2:] == [value for _, value in lines[1]][-2:]
