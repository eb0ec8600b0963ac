"""Three replicas with torchft's own lighthouse; some die by SIGKILL, and come back."""

import csv
import multiprocessing
import os
import signal
import socket
import sys
import time
from collections import Counter
from itertools import chain
from pathlib import Path

import pytest
import torch
from torchft.coordination import LighthouseServer

from lt_torchft import FaultTolerant

sys.path.insert(0, str(Path(__file__).parent))
from replica import RANKS, ROUND, make_data, start

KILLS = int(os.environ.get("LT_KILLS", "1"))  # 20 for the whole
PLACES = ["all-reduce", "recovery", "forward", "commit", "save"]
NAMES = ["one", "two", "three"]
PATIENCE = 120.0


class Job:
    """Replicas of one process or several, started again when one of theirs dies."""

    def __init__(self, folder, address, kind, nursery):
        self.folder, self.address, self.kind, self.nursery = folder, address, kind, nursery
        self.every = ROUND if kind in ("local", "diloco") else 1
        self.ranks = RANKS.get(kind, 1)
        self.processes, self.deaths = {}, 0
        for name in NAMES:
            self.start(name)

    def start(self, name):
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        arguments = [(self.folder, name, self.address, self.kind, rank, port) for rank in range(self.ranks)]
        self.processes[name] = [self.nursery.Process(target=start, args=each, name=name) for each in arguments]
        for process in self.processes[name]:
            process.start()

    def notes(self, name, rank=0):
        path = self.folder / f"{name}.{rank}.txt"
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    def wait(self, what, condition):
        end = time.monotonic() + PATIENCE
        while not condition():
            assert time.monotonic() < end, f"{what}: {self.tails()}"
            time.sleep(0.02)

    def tails(self):
        return {name: (self.folder / f"{name}.log").read_text()[-2000:] for name in NAMES}

    def wait_until_it_trains(self, name):
        before = len(self.notes(name))
        self.wait(f"{name} trains", lambda: any(note[0] == "trained" for note in self.notes(name)[before:]))

    def kill(self, name, place):
        """Have a replica die at a place, start it again, and wait until it trains with the others."""
        if place == "recovery":
            self.kill_by(name, "forward")
        self.kill_by(name, place)
        self.wait_until_it_trains(name)

    def kill_by(self, name, place):
        rank = self.deaths % self.ranks
        (self.folder / f"die_{name}_{rank}_{place}").touch()
        dying = self.processes[name][rank]
        self.wait(f"{name} dies in {place}", lambda: not dying.is_alive())
        assert dying.exitcode == -signal.SIGKILL
        for process in self.processes[name]:  # as torchrun does with the others of a job
            process.kill()
            process.join()
        self.deaths += 1
        self.start(name)

    def end(self):
        """Have all end at one step, and return what each of them ended with."""
        steps = max(int(note[1]) for name in NAMES for note in self.notes(name) if note[0] == "trained") + 30
        steps -= steps % self.every
        (self.folder / "last_step.new").write_text(str(steps))
        (self.folder / "last_step.new").rename(self.folder / "last_step")
        for name, processes in self.processes.items():
            for process in processes:
                process.join(PATIENCE)
                assert process.exitcode == 0, self.tails()[name]
        return [torch.load(self.folder / f"{name}.{rank}.pt") for name in NAMES for rank in range(self.ranks)]

    def close(self):
        for process in chain.from_iterable(self.processes.values()):
            process.kill()
            process.join()


@pytest.fixture(scope="module")
def nursery():
    """Return whence replicas come: a process that has imported torch, and forks."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["replica"])
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", str(Path(__file__).parent))
        context.Process(target=int).start()
    return context


@pytest.fixture
def lighthouse():
    """Start torchft's lighthouse, to which a replica that is silent for a second is dead."""
    server = LighthouseServer("127.0.0.1:0", 2, join_timeout_ms=1000, quorum_tick_ms=20, heartbeat_timeout_ms=1000)
    yield f"http://127.0.0.1:{server.address().rpartition(':')[2]}"
    server.shutdown()


@pytest.fixture
def job(request, tmp_path, lighthouse, nursery):
    job = Job(tmp_path, lighthouse, request.param, nursery)
    yield job
    job.close()


def lives(job, name, rank=0):
    """Return the samples of each step that each process of a replica took: not those of a round that it took back."""
    found = []
    for what, *numbers in job.notes(name, rank):
        if what == "born":
            found.append({})
        elif what == "trained":
            found[-1][int(numbers[0])] = tuple(map(int, numbers[1:]))
        elif what == "behind" and found[-1]:
            take_back(found[-1], job.every)
    return found


def take_back(steps, every):
    """Forget the steps of a round that was not finished."""
    for step in range(max(steps) + 1 - (max(steps) + 1) % every, max(steps) + 1) if steps else ():
        del steps[step]


def counted(job, name, rank):
    """Return the samples of each step that counts: not those of a round in which a process died."""
    steps = {}
    for life in lives(job, name, rank):
        take_back(steps, job.every)
        steps |= life
    return steps.values()


def check_samples(job, steps):
    """No batch counts twice; those that nobody noted went into a step that their replica did not see the end of."""
    data = make_data(FaultTolerant())
    number_of = {tuple(data.batch(number)[2].tolist()): number for number in range(len(NAMES) * job.ranks * steps)}
    ranks = [(name, rank) for name in NAMES for rank in range(job.ranks)]
    trained = Counter(number_of[samples] for who in ranks for samples in counted(job, *who))
    assert not [number for number, times in trained.items() if times > 1]
    unseen = set(range(max(trained) + 1)) - set(trained)
    lost = job.deaths + sum(note[0] not in ("trained", "born") for name in NAMES for note in job.notes(name))
    assert len(unseen) <= lost * job.every * job.ranks, sorted(unseen)


def check_logs(job):
    """Each process has a log of its own, with a row for each step that it took, of the batch that it read."""
    for name in NAMES:
        taken = [(step, float(samples[0])) for life in lives(job, name) for step, samples in life.items()]
        files = (job.folder / f"logs_{name}").glob("*/metrics.csv")
        rows = [row for file in files for row in csv.DictReader(file.read_text().splitlines())]
        assert sorted((int(row["step"]), float(row["first"])) for row in rows) == sorted(taken), name


@pytest.mark.parametrize("job", ["step", "hsdp", "diloco", "local"], indirect=True)
def test_the_others_go_on_and_the_one_that_comes_back_has_their_weights(job):
    for name in NAMES:  # at torchft's step 0 all take the first one's weights, at each attempt
        job.wait(
            f"{name} ends a round",
            lambda name=name: any(int(note[1]) >= job.every for note in job.notes(name) if note[0] == "trained"),
        )
    lost = {}
    for number in range(KILLS):
        name, place = NAMES[number % 3], PLACES[number % 5]
        others = [other for other in NAMES if other != name]
        running, before = (
            [p for each in others for p in job.processes[each]],
            {each: len(job.notes(each)) for each in others},
        )
        job.kill(name, place)
        assert all(process.is_alive() for process in running), job.tails()
        for other in others:
            lost[number, place, other] = sum(note[0] != "trained" for note in job.notes(other)[before[other] :])
    ended = job.end()
    print(lost)
    for other in ended[1:]:
        for key, value in ended[0].items():
            assert torch.equal(other[key], value), key
    check_samples(job, int(ended[0]["step"]))
    check_logs(job)
    # one step, or round, for each death: where it dies in its recovery, there were two
    assert all(count <= (2 if place == "recovery" else 1) for (_, place, _), count in lost.items()), lost
