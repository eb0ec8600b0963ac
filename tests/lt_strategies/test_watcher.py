"""A rank that is stuck in a step is reported long before the deadline; what may take long and is no step is not."""

import faulthandler
import math
import shutil
import sys
import threading
import time
from pathlib import Path
from unittest.mock import patch

import pytest
from tests import processes
from tests.patience import PATIENCE
from torch.distributed import HashStore

from lt_core.errors import LtError, RankError
from lt_core.strategy import Strategy
from lt_strategies import group
from lt_strategies.job import RankClient, made_folder
from lt_strategies.launch.self_watch import SelfWatch
from lt_strategies.launch.start import run_here
from lt_strategies.watch import flight, page, rhythm
from lt_strategies.watch.page import DUMP_SIGNAL, STEPPING, Line, Page
from lt_strategies.watch.watch import Watch

pytestmark = pytest.mark.skipif(DUMP_SIGNAL is None, reason="ranks are asked by a signal")

HANGS = 'File "/home/me/train.py", line 12 in training_step'
WAITS = 'File "/site-packages/torch/distributed/distributed_c10d.py", line 3 in all_reduce'


class Rank:
    """A living process that answers with a stack."""

    def __init__(self, file, stack):
        self.file, self.stack = file, stack
        file.touch()

    def status(self):
        return None

    def send(self, number):
        with self.file.open("a") as file:
            head = "Thread 0x2" if "Current thread" in self.stack else "Current thread 0x1"
            file.write(f"{head} (most recent call first):\n  {self.stack}\n")


class Job:
    """Two ranks whose steps take ``step`` seconds, looked at by a clock of ours."""

    def __init__(self, folder, stacks, step=1.0, deadline=10_000.0, steps=5, pause=math.inf):
        self.now, self.said, self.batches = 0.0, [], 0
        self.page = Page(folder / "page", len(stacks))
        self.ranks = {rank: Rank(folder / f"stack_{rank}.txt", stack) for rank, stack in enumerate(stacks)}
        self.watch = Watch(
            folder, self.ranks, len(stacks), deadline, say=self.said.append, clock=lambda: self.now, pause=pause
        )
        for _ in range(steps):
            self.train(step)

    def train(self, seconds):
        self.now += seconds
        self.batches += 1
        for rank in self.ranks:
            self.page.write(rank, Line(1, self.now, STEPPING, self.batches, "train"))
        assert self.look() is None

    def wait(self, seconds):
        self.now += seconds
        return self.look()

    def look(self):
        """Look, without the real time in which real ranks answer: these have when they are asked, or never will."""
        with patch.object(time, "sleep", lambda seconds: None), patch.object(flight, "_ANSWER", 0.02):
            return self.watch.look()


@pytest.mark.parametrize(("step", "patience"), [(0.1, 60), (10.0, 200)])
def test_a_stuck_rank_is_reported_once_after_a_minute_or_twenty_steps_with_its_line(tmp_path, step, patience):
    job = Job(tmp_path, [WAITS, HANGS], step)
    assert job.wait(patience - 1) is None
    assert job.said == []
    assert job.wait(2) is None
    (said,) = job.said
    assert said.startswith(
        f"Rank 1 of 2 has been in train batch 6 of this run for {patience + 1} s. Is it stuck? Its steps take"
    )
    assert "The job ends after 10000 s" in said
    assert "line 12 in training_step" in said
    job.wait(patience * 3)
    assert len(job.said) == 1


@pytest.mark.parametrize("file", ["lt_strategies/distributed.py", "lt_parallel/pipelined.py"])
def test_a_rank_that_talks_by_a_strategy_waits_for_the_one_that_hangs(tmp_path, file):
    job = Job(tmp_path, [f'File "/site-packages/{file}", line 3 in gather', HANGS], deadline=300.0)
    assert job.wait(310).text.startswith("Rank 1 of 2 hangs")


def test_a_users_file_in_a_folder_of_a_strategy_s_name_is_the_users(tmp_path):
    waits = 'File "/site-packages/lt_strategies/distributed.py", line 3 in gather'
    hangs = 'File "/home/me/lt_strategies/train.py", line 12 in training_step'
    job = Job(tmp_path, [waits, hangs], deadline=300.0)
    assert job.wait(310).text.startswith("Rank 1 of 2 hangs")


def test_the_job_ends_at_the_deadline_only(tmp_path):
    job = Job(tmp_path, [WAITS, HANGS], deadline=300.0)
    assert job.wait(290) is None
    assert job.wait(20).text.startswith("Rank 1 of 2 hangs in train batch 6")


STARTS = 'File "/home/me/train.py", line 9 in on_train_start'
SCORES = 'File "/home/me/score.py", line 4 in fid\n  File "/home/me/train.py", line 31 in on_validation_epoch_end'
VALIDATES = 'File "/home/me/train.py", line 20 in validation_step'
COMPILES = 'File "/site-packages/torch/_inductor/compile_fx.py", line 7 in compile_fx'
LOGS = 'File "/lib/socket.py", line 1 in recv\n  File "/site-packages/lt_loops/run/log.py", line 7 in guarded'
FIRST, CHECKED = Line(1, 0.0, STEPPING, 0, "", first=True), Line(1, 0.0, STEPPING, 2, "validate", first=True)
VALIDATED, TRAINED = Line(1, 0.0, STEPPING, 9, "validate"), Line(1, 0.0, STEPPING, 9, "train")


@pytest.mark.parametrize(
    ("line", "stack", "place", "times"),
    [
        (FIRST, HANGS, "in its first batch or before it", 6),
        (FIRST, STARTS, "in its first batch or before it", 6),
        (CHECKED, HANGS, "in validate batch 3 of this run or after it", 6),
        (CHECKED, STARTS, "in validate batch 3 of this run or after it", 6),
        (VALIDATED, SCORES, "in validate batch 10 of this run", 6),
        (TRAINED, SCORES, "in train batch 10 of this run", 6),
        (VALIDATED, VALIDATES, "in validate batch 10 of this run", 1),
        (VALIDATED, HANGS, "in validate batch 10 of this run", 1),
        (TRAINED, HANGS, "in train batch 10 of this run", 1),
        (TRAINED, HANGS.replace("training_step", "on_train_batch_start"), "in train batch 10 of this run", 1),
    ],
)
@pytest.mark.parametrize("sees_all", [True, False])
def test_what_may_take_long_has_six_deadlines_and_is_reported_at_each(tmp_path, line, stack, place, times, sees_all):
    job = Job(tmp_path, [stack, WAITS], steps=0, deadline=300.0)
    if not sees_all:  # as a rank looks at itself
        del job.ranks[1]
    for rank in (0, 1):
        job.page.write(rank, line)
    for now in range(0, 300 * times, 10):
        assert job.wait(10 if now else 0) is None
    said_late = [said for said in job.said if "6 times" in said]
    assert len(said_late) == (times > 1) * 5
    for said in said_late:
        assert said.startswith(f"Rank 0 of 2 has been {place} for ")
        assert "The job ends after 1800 s (6 times the step deadline" in said
        assert stack.splitlines()[0] in said
    verdict = job.wait(80)
    assert verdict.text.startswith(f"Rank 0 of 2 hangs {place}: no batch was done for {300 * times} s (")


@pytest.mark.parametrize("busy", [COMPILES, LOGS])
@pytest.mark.parametrize("line", [FIRST, CHECKED, VALIDATED, TRAINED])
def test_compiling_and_logging_count_as_life_and_what_follows_may_hang(tmp_path, line, busy):
    job = Job(tmp_path, [busy, WAITS], steps=0, deadline=300.0)
    for rank in (0, 1):
        job.page.write(rank, line)
    for _ in range(10):
        assert job.wait(301) is None
    assert job.said == []
    job.ranks[0].stack = HANGS
    assert job.wait(290) is None
    for _ in range(5 * line.first):
        assert job.wait(301) is None
    assert [job.wait(20), job.wait(300)] != [None, None]


def test_a_rank_that_is_interrupted_by_the_verdict_shows_no_frames_of_its_step(tmp_path):
    Page(tmp_path / "page", 1)
    rank = RankClient(str(tmp_path), 0, 1)

    def training_step():  # where the verdict's signal finds this rank: often 20 frames deep in torch
        rank.heard = True
        raise RankError("Rank 1 of 2 failed in train batch 4", code="LT701")

    with pytest.raises(RankError, match="Rank 1 of 2 failed") as raised:
        rank.run(training_step, (), Strategy())
    faulthandler.unregister(DUMP_SIGNAL)
    rank._dump.close()
    assert "training_step" not in [entry.name for entry in raised.traceback]
    assert raised.value.__suppress_context__


def test_a_run_s_first_training_batch_ends_the_long_patience_and_a_sanity_check_does_not(tmp_path):
    lines = Page(tmp_path / "page", 1)
    rank, seen = RankClient(str(tmp_path), 0, 1), []

    def run():
        rank.ready()
        for phase in ("validate", "validate", "train", "validate", "train"):
            seen.append(lines.read(0).first)
            rank.batch_done(phase)
        seen.append(lines.read(0).first)

    for _ in range(2):
        rank.run(run, (), Strategy())
    faulthandler.unregister(DUMP_SIGNAL)
    rank._dump.close()
    assert seen == [True, True, True, False, False, False] * 2


def test_on_a_device_all_ranks_that_hang_are_shown_since_one_that_waits_looks_like_the_cause(tmp_path):
    reads = 'File "/home/me/train.py", line 15 in training_step'  # loss.item(), while NCCL waits for the other rank
    job = Job(tmp_path, [reads, HANGS], deadline=300.0)
    for rank in job.ranks:
        job.page.write(rank, Line(1, job.now, STEPPING, job.batches, "train", on_device=True))
    text = job.wait(310).text
    assert "stands where it reads a value" in text
    assert "Rank 0 stood here:" in text
    assert "Rank 1 stood here:" in text


def test_a_rank_that_moves_and_hangs_again_is_reported_again(tmp_path):
    job = Job(tmp_path, [WAITS, HANGS])
    job.wait(61)
    job.train(1.0)
    job.wait(130)
    assert len(job.said) == 2


@pytest.mark.parametrize(
    "stack",
    [
        'File "/site-packages/torch/_inductor/compile_fx.py", line 7 in compile_fx',
        'File "/site-packages/torch/utils/data/dataloader.py", line 7 in _get_data',
        'File "/site-packages/lt_data/feed.py", line 7 in _items',
        'File "/home/me/train.py", line 7 in validation_step',
        'File "/home/me/train.py", line 7 in on_validation_epoch_end',
        'File "/site-packages/lt_loops/evaluate.py", line 7 in evaluate',
        'File "/home/me/io.py", line 7 in save_checkpoint',
        LOGS,
    ],
)
def test_compiling_logging_validating_saving_and_waiting_for_a_loader_are_no_steps(tmp_path, stack):
    job = Job(tmp_path, [WAITS, f'File "/x.py", line 1 in wait\n  {stack}'])
    job.wait(61)
    assert job.said == []
    job.ranks[1].stack = HANGS
    job.wait(61)
    assert len(job.said) == 1, "what follows it may hang all the same"


def test_steps_that_were_done_between_two_looks_count(tmp_path):
    job = Job(tmp_path, [WAITS, HANGS], steps=0)
    for rank in (0, 1):
        job.page.write(rank, Line(1, 0.0, STEPPING, 0, ""))
    job.look()
    job.batches = 2
    job.train(0.1)
    job.wait(61)
    assert "Its steps take 0.05 s." in job.said[0]


def test_one_step_alone_does_not_show_how_long_one_takes(tmp_path):
    job = Job(tmp_path, [WAITS, HANGS], steps=1)
    job.wait(500)
    assert job.said == []


def test_a_compiled_step_that_hangs_is_reported(tmp_path):
    job = Job(tmp_path, [WAITS, HANGS + '\n  File "/site-packages/torch/_dynamo/eval_frame.py", line 7 in _fn'])
    job.wait(61)
    assert len(job.said) == 1


@pytest.mark.parametrize(
    "thread",
    [
        'File "/site-packages/torch/utils/data/_utils/pin_memory.py", line 35 in do_one_step',
        'File "/site-packages/lt_checkpoint/_background.py", line 90 in save_checkpoint',
    ],
)
def test_a_thread_that_pins_batches_or_writes_a_file_hides_no_stuck_step(tmp_path, thread):
    beside = f"  {thread}\n\nCurrent thread 0x1 (most recent call first):\n  {HANGS}"
    job = Job(tmp_path, [WAITS, beside.strip()])
    job.wait(61)
    assert len(job.said) == 1


def test_a_backward_that_is_compiled_in_a_thread_of_torch_is_no_step(tmp_path):
    thread = 'Thread 0x2 (most recent call first):\n  File "/torch/_inductor/compile_fx.py", line 7 in bw_compiler'
    job = Job(tmp_path, [WAITS, f"{HANGS}\n\n{thread}"])
    job.wait(61)
    assert job.said == []


def test_a_rank_is_judged_by_its_last_answer_and_a_stopped_one_has_none(tmp_path):
    job = Job(tmp_path, [WAITS, HANGS], deadline=300.0)
    job.wait(100)
    job.ranks[1].send = lambda number: None
    assert "It does not answer either" in job.wait(201).text


def test_a_user_s_load_state_dict_in_a_step_hides_no_stuck_step(tmp_path):
    job = Job(tmp_path, [WAITS, 'File "/home/me/ema.py", line 7 in load_state_dict\n  ' + HANGS])
    job.wait(61)
    assert len(job.said) == 1


def test_the_main_thread_is_known_by_its_number_whichever_thread_the_signal_reached(tmp_path):
    job = Job(tmp_path, [WAITS, ""], steps=0)
    loads = 'File "/site-packages/torch/utils/data/dataloader.py", line 7 in _get_data'
    job.ranks[1].stack = f"{loads}\n\nThread 0x7f2 (most recent call first):\n  {HANGS}"
    for _ in range(5):
        job.now, job.batches = job.now + 1, job.batches + 1
        for rank in (0, 1):
            job.page.write(rank, Line(1, job.now, STEPPING, job.batches, "train", thread=0x7F2 * rank))
        job.look()
    job.wait(61)
    (said,) = job.said
    assert "line 12 in training_step" in said


@pytest.mark.parametrize("pipeline", [False, True])
def test_ranks_that_wait_at_different_calls_are_a_deadlock_but_not_in_a_pipeline(tmp_path, monkeypatch, pipeline):
    schedule = '\n  File "/site-packages/torch/distributed/pipelining/schedules.py", line 9 in step' * pipeline
    job = Job(tmp_path, [WAITS + schedule, WAITS.replace("all_reduce", "barrier") + schedule])
    monkeypatch.setattr(job.watch._still, "seen", lambda lines: True)
    verdict = job.wait(11)
    assert (verdict is None) == pipeline


@pytest.mark.parametrize(("on_device", "batches", "ends"), [(False, 0, True), (True, 0, False), (True, 3, True)])
def test_ranks_that_a_backend_connects_slowly_are_no_deadlock(tmp_path, monkeypatch, on_device, batches, ends):
    job = Job(tmp_path, [WAITS, WAITS.replace("all_reduce", "barrier")], steps=0)
    for rank in (0, 1):
        job.page.write(rank, Line(1, 0.0, STEPPING, batches, "train", on_device=on_device))
    monkeypatch.setattr(job.watch._still, "seen", lambda lines: True)
    assert (job.look() is not None) == ends


@pytest.mark.parametrize(("on_device", "seconds"), [(False, 10), (True, 60)])
def test_where_a_device_works_a_job_must_stand_still_for_longer(monkeypatch, on_device, seconds):
    now = [0.0]
    monkeypatch.setattr(rhythm.time, "monotonic", lambda: now[0])
    monkeypatch.setattr(rhythm, "processor_seconds", lambda pid: 0.0)
    stillness, lines = rhythm.Stillness(), {0: Line(state=STEPPING, batches=1, on_device=on_device)}
    found = []
    for now[0] in range(2, 80):
        found += [now[0]] if stillness.seen(lines) else []
    assert found[0] == seconds + 3  # it began to look at second 2


TRACE = {  # as torch 2.13 and NCCL 2.27 write it
    "entries": [
        {"process_group": ["0", "default_pg"], "collective_seq_id": 811, "profiling_name": "nccl:all_reduce",
         "input_dtypes": ["Float"], "input_sizes": [[4096]], "is_p2p": False, "state": "completed", "retired": True},
        {"process_group": ["0", "default_pg"], "collective_seq_id": 812, "profiling_name": "nccl:all_gather",
         "input_dtypes": ["Float"], "input_sizes": [[8, 2]], "is_p2p": False, "state": "started", "retired": False},
    ]
}  # fmt: skip


def test_where_ranks_are_at_different_collectives_both_are_named_and_where_they_part():
    ahead = flight.calls_of(TRACE)
    behind = [ahead[0], ahead[1]._replace(what="all_reduce of Float[4096]")]
    assert flight.differences({0: ahead, 1: ahead}) == ""
    assert flight.differences({0: ahead}) == ""
    assert flight.differences({0: ahead, 1: ahead[:1]}) == (
        "By torch's flight recorder:\nIn the group 'default_pg' rank 0 waits in all_gather of Float[8, 2] (call 812); "
        "rank 1 came as far as all_reduce of Float[4096] (call 811)."
    )
    assert flight.differences({0: ahead, 1: behind}).endswith(
        "They differ from call 812 on: rank 0 all_gather of Float[8, 2], rank 1 all_reduce of Float[4096]."
    )


def test_a_rank_answers_what_it_has_recorded_and_one_that_is_gone_does_not(tmp_path, monkeypatch):
    calls = flight.calls_of(TRACE)
    monkeypatch.setattr(flight, "recorded", lambda: calls)
    flight.listen(tmp_path, 0)
    assert flight.ask(tmp_path, [0, 1]) == {0: calls}
    assert flight.ask(tmp_path, [0, 1]) == {0: calls}


def test_a_rank_that_is_hushed_writes_nothing_into_a_folder_that_is_deleted(tmp_path):
    before = set(threading.enumerate())
    flight.listen(tmp_path, 0)
    (thread,) = set(threading.enumerate()) - before
    time.sleep(0.5)  # it waits to be asked by now, as a rank's does; if not, this test sees less
    flight.hush(tmp_path, 0)
    thread.join(PATIENCE)
    assert not list(tmp_path.iterdir())


class TwoRanks(Strategy):
    world_size = 2


@pytest.mark.parametrize(("agent_holds_it", "stays"), [("True", False), ("False", True)])
def test_under_torchrun_rank_0_stays_for_the_others_where_the_store_would_go_with_it(
    monkeypatch, agent_holds_it, stays
):
    """With TORCH_DISABLE_SHARE_RDZV_TCP_STORE=1 it is rank 0's."""

    def fail():
        with pytest.raises(LtError):
            SelfWatch(TwoRanks()).run(raises, (LtError("boom"),), TwoRanks())

    def raises(error):
        raise error

    monkeypatch.setattr(group, "_last_store", store := HashStore())
    monkeypatch.setenv("TORCHELASTIC_RUN_ID", "lt")
    monkeypatch.setenv("TORCHELASTIC_USE_AGENT_STORE", agent_holds_it)
    rank = threading.Thread(target=fail)
    rank.start()
    store.wait(["cause"])
    rank.join(1.0 if stays else PATIENCE)
    assert rank.is_alive() is stays
    store.add("heard", 1)  # the other one has read it
    rank.join(PATIENCE)
    assert not rank.is_alive()


def test_a_run_that_a_rank_watches_itself_leaves_no_thread():
    before, strategy = set(threading.enumerate()), TwoRanks()
    seen = SelfWatch(strategy).run(lambda: set(threading.enumerate()) - before, (), strategy)
    assert {thread.name for thread in seen} == {"lt-flight", "lt-self-watch"}
    for thread in seen:
        thread.join(PATIENCE)
    assert not any(thread.is_alive() for thread in seen)


RUNS_IN_HOOKS = """
import time
from lt_core.strategy import Strategy
from lt_strategies.launch.start import run_here
from lt_strategies.watch import rhythm

rhythm.STILL, rhythm.WORK = 0.5, float("inf")  # asked where it stands at every look, as after 10 s without work


class TwoRanks(Strategy):
    world_size = 2


def run(*inner):
    strategy, seen = TwoRanks(), []

    def fit():
        seen.append(strategy.supervisor)
        for each in inner:
            seen.extend(run(*each))
            time.sleep(2.5)
        return seen

    return run_here(fit, (), strategy)


first, second = run([], [[]]), run([])
print(len(first), len(set(first)), first[0].folder.exists(), len(set(second)), first[0] is second[0])
"""


def test_a_rank_watches_itself_once_however_many_runs_are_in_its_hooks():
    """The watch of an inner run took the handler along by which the outer one is asked: the signal ended the rank."""
    command = [sys.executable, "-c", RUNS_IN_HOOKS]
    found = processes.run(command, check=False, capture_output=True, text=True, timeout=PATIENCE)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["4", "1", "False", "1", "False"], "runs, their watches, the folder after them"


def test_a_batch_of_an_inner_run_is_a_sign_of_life_of_the_outer_one():
    outer = TwoRanks()

    def validate():
        inner.supervisor.batch_done("validate")

    def fit():
        before = outer.supervisor.line(0)
        run_here(validate, (), inner)
        return before, outer.supervisor.line(0)

    inner = TwoRanks()
    before, after = run_here(fit, (), outer)
    assert after.beat > before.beat
    assert (after.state, after.batches, after.phase) == (before.state, before.batches, before.phase)


def test_an_error_that_all_ranks_raise_by_agreement_is_no_failure(monkeypatch):
    class Leaves(LtError):
        agreed = True

    def reported(error):
        def fit():
            strategy.supervisor.failed(error)
            raise error

        with pytest.raises(type(error)):
            client.run(fit, (), strategy)
        return page.read_report(folder, 0)

    monkeypatch.setattr(page, "DUMP_SIGNAL", None)
    monkeypatch.setattr(page, "RAISE_SIGNAL", None)
    folder, strategy = Path(made_folder(1)), Strategy()
    try:
        client = RankClient(str(folder), 0, 1)
        assert reported(Leaves("go on from another state")) is None
        assert reported(LtError("boom"))["error"] == "lt_core.errors.LtError: boom"
    finally:
        shutil.rmtree(folder)


@pytest.mark.parametrize("suspended", [400.0, 100_000.0])
def test_time_in_which_the_watcher_itself_stood_still_does_not_count(tmp_path, suspended):
    job = Job(tmp_path, [WAITS, HANGS], deadline=300.0, pause=50.0)
    for _ in range(3):
        assert job.wait(suspended) is None
    assert job.said == []
    job.train(1.0)  # the ranks are awake
    for _ in range(7):
        assert job.wait(40.0) is None
    verdict = job.wait(40.0)
    assert verdict is not None
    assert verdict.rank == 1
