"""Ranks meet in a store with few questions, however many there are."""

import socket
import threading
import time
import weakref
from datetime import timedelta

import pytest
import torch
from tests.patience import PATIENCE
from torch.distributed import HashStore

from lt_core import Accelerator, Placement
from lt_core.environment import Environment
from lt_core.errors import RankError
from lt_core.strategy import SingleDevice
from lt_strategies import DDP, group
from lt_strategies.rendezvous import meet
from lt_strategies.watch.page import Line

LONG = timedelta(seconds=PATIENCE)


class Counting:
    """A store that counts what it is asked, and answers a call for all but some ranks."""

    def __init__(self, world_size, absent):
        self.store, self.world_size, self.absent, self.asked = HashStore(), world_size, absent, 0

    def set(self, key, value):
        self.store.set(key, value)
        for rank in set(range(1, self.world_size)) - self.absent if key == "call" else ():
            self.store.set(f"{value}/{rank}", "me")

    def check(self, keys):
        self.asked += 1
        return self.store.check(keys)

    def multi_get(self, keys):
        self.asked += 1
        return self.store.multi_get(keys)


def test_many_ranks_meet_under_one_name():
    store, names = HashStore(), []
    ranks = [threading.Thread(target=lambda r=r: names.append(meet(store, r, 64, LONG))) for r in range(64)]
    for rank in ranks:
        rank.start()
    for rank in ranks:
        rank.join()
    assert len(names) == 64
    assert len(set(names)) == 1


def test_a_rank_that_is_still_in_a_run_of_its_own_is_waited_for_beyond_the_timeout(monkeypatch):
    # it repeats what rank 0 did on one device before it started the others
    store, short, signs = HashStore(), timedelta(seconds=0.3), [time.monotonic()]

    class Client:
        def line(self, rank):
            return Line(beat=signs[0] if rank else 0.0)

    def be_rank_1():
        for _ in range(20):  # 1 s
            time.sleep(0.05)
            signs[0] = time.monotonic()
        meet(store, 1, 2, LONG)

    monkeypatch.setattr(SingleDevice, "launcher", Client())
    late = threading.Thread(target=be_rank_1)
    late.start()
    assert meet(store, 0, 2, short)
    late.join()
    with pytest.raises(RankError, match=r"Ranks \[1\] of 2 did not start within 0.3 s"):  # no sign any more
        meet(HashStore(), 0, 2, short)


@pytest.mark.parametrize("alive", [{0}, {0, 1}, set()])
def test_the_sign_of_one_rank_excuses_no_other(monkeypatch, alive):
    # rank 2 stands still; rank 1 is on its way or not
    class Client:
        def line(self, rank):
            return Line(beat=time.monotonic() if rank in alive else 0.0)

    monkeypatch.setattr(SingleDevice, "launcher", Client())
    failed = []

    def wait():
        try:
            meet(HashStore(), 0, 3, timedelta(seconds=0.3))
        except RankError as error:
            failed.append(error)

    waits = threading.Thread(target=wait, daemon=True)
    waits.start()
    waits.join(PATIENCE / 10)
    assert failed
    assert "Ranks [1, 2] of 3 did not start" in str(failed[0])


def test_what_a_failed_attempt_left_in_the_store_is_no_meeting():
    store, names = HashStore(), []
    store.set("call", "old")
    store.set("old/met", "someone else")
    late = threading.Thread(target=lambda: names.append(meet(store, 1, 2, LONG)))
    late.start()
    assert meet(store, 0, 2, LONG) not in ("old", "")
    late.join()
    assert names[0] == store.get("call").decode()


def test_rank_0_asks_about_all_ranks_at_a_time():
    store = Counting(1024, absent=set())
    meet(store, 0, 1024, LONG)
    assert store.asked == 2


def test_absent_ranks_are_named_by_few_questions():
    store = Counting(1024, absent={5, 700})
    with pytest.raises(RankError, match=r"Ranks \[5, 700\] of 1024 did not start within 0 s") as caught:
        meet(store, 0, 1024, timedelta(0))
    assert caught.value.code == "LT705"
    assert store.asked < 60


def test_of_many_absent_ranks_the_first_are_named():
    store = Counting(1024, absent=set(range(3, 900)))
    with pytest.raises(RankError, match=r"Ranks \[3, 4, 5, 6, 7, 8, 9, 10, \.\.\.\] of 1024"):
        meet(store, 0, 1024, timedelta(0))


def test_a_group_on_nccl_is_aborted_after_a_failure(monkeypatch):
    """Destroying it would wait for kernels that never end."""
    ended = []
    monkeypatch.setattr(group, "_group", None)
    monkeypatch.setattr(group, "_broken", None)
    monkeypatch.setattr(group.dist, "is_initialized", lambda: True)
    monkeypatch.setattr(group.dist, "get_backend_config", lambda: "cpu:gloo,cuda:nccl")
    monkeypatch.setattr(group.dist.distributed_c10d, "_abort_process_group", lambda: ended.append("aborted"))
    monkeypatch.setattr(group.dist, "destroy_process_group", lambda: ended.append("destroyed"))
    group.leave_group(failed=True)
    group.leave_group()
    assert ended == ["aborted", "destroyed"]


def test_after_a_failure_a_process_can_enter_another_job_but_not_the_same(monkeypatch):
    monkeypatch.setattr(group, "_broken", None)
    failed, other = Environment(), Environment(main_port=1)
    group.enter(failed, 1, "gloo", LONG)
    group.leave_group(failed=True)
    with pytest.raises(RankError, match="cannot meet again"):
        group.enter(failed, 1, "gloo", LONG)
    assert group.enter(other, 1, "gloo", LONG).world_size == 1
    group.leave_group()


@pytest.mark.parametrize("then", ["left", "entered again"])
def test_of_a_group_that_the_user_has_destroyed_nothing_is_kept(monkeypatch, then):
    """Its threads may abort the process while Python shuts down."""
    monkeypatch.setattr(group, "_broken", None)
    entered = group.enter(Environment(), 1, "gloo", LONG)  # a strategy keeps it
    control = weakref.ref(entered.control)
    torch.distributed.destroy_process_group()
    if then == "entered again":
        group.enter(Environment(), 1, "gloo", LONG)
    group.leave_group()
    assert control() is None


@pytest.mark.skipif(not hasattr(socket, "TCP_USER_TIMEOUT"), reason="needs Linux")
def test_a_connection_to_a_machine_that_has_vanished_breaks_when_a_collective_would():
    with socket.create_server(("127.0.0.1", 0)) as server, group.giving_up(timedelta(seconds=7)):
        made = socket.create_connection(server.getsockname())
    with made, socket.socket() as other:
        assert made.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 7000
        assert other.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 0


def test_a_barrier_of_torch_s_own_guesses_no_device(monkeypatch):
    """It warns where it does ("specify `device_id`"), and may then wait on another rank's GPU."""
    talks = group.default_backend(torch.device("cuda")).replace("nccl", "gloo")
    talks = talks if ":" in talks else f"cuda:{talks}"  # as torch takes NCCL alone
    monkeypatch.setattr(group, "_broken", None)
    monkeypatch.setattr(torch._C, "_get_accelerator", lambda *check: torch.device("cuda"))
    group.enter(Environment(), 1, talks, LONG)
    torch.distributed.barrier()  # warnings are errors
    group.leave_group()


def test_a_rank_s_device_is_the_current_one_before_its_backend_can_connect(monkeypatch):
    class Device(Accelerator):
        def open(self, device):
            order.append("device")

    order, strategy = [], DDP()
    strategy.place(Placement(accelerator=Device()))
    monkeypatch.setattr(group, "enter", lambda *args: order.append("group"))
    strategy.open()
    assert order == ["device", "group"]
