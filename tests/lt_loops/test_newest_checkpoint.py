"""Which of several checkpoints is the newest: by what the files say of themselves, only then by the files' times."""

import time

import pytest

from lt_core.files.checkpoint_header import Header
from lt_loops.checkpoint.choice import newest_first


def written(time, step, run="a", weights_only=False):
    return Header(2, run, time, step, 0, weights_only)


def of_0_1(step, run="a"):
    return Header(1, run, None, step, 0, False)


def order(**resuming_or_files):
    """Names, newest first; each file is given as its time on disk and its header."""
    resuming = resuming_or_files.pop("resuming", False)
    times = {name: time for name, (time, _) in resuming_or_files.items()}
    headers = {name: header for name, (_, header) in resuming_or_files.items()}
    return "".join(newest_first(times, headers, resuming=resuming))


@pytest.mark.parametrize(
    ("files", "newest"),
    [
        pytest.param({"a": (9, written(100, 2)), "b": (1, written(200, 8))}, "ba", id="a copy without times"),
        pytest.param({"a": (5, written(100, 8)), "b": (5, written(100, 10))}, "ba", id="one moment: the higher step"),
        pytest.param({"a": (5, None), "b": (6, None)}, "ba", id="nothing said: the file's time"),
        pytest.param({"old": (1, written(100, 8)), "n": (1, written(200, 2, "b"))}, "nold", id="a newer run's step 2"),
        pytest.param({"a": (9, of_0_1(2)), "b": (1, of_0_1(8))}, "ba", id="0.1: the step within one run"),
        pytest.param({"a": (5, of_0_1(8)), "b": (5, of_0_1(10))}, "ba", id="0.1: equal times"),
        pytest.param({"a": (1, of_0_1(8)), "b": (2, of_0_1(2, "b"))}, "ba", id="0.1: another run by its file's time"),
        pytest.param(
            {"a": (1, of_0_1(8, "")), "b": (2, of_0_1(2, ""))}, "ba", id="0.1: unknown runs by the file's time"
        ),
        pytest.param(
            {"a": (2, of_0_1(8, "")), "b": (2, of_0_1(10, ""))}, "ba", id="unknown runs at one time: the step"
        ),
        pytest.param({"a": (900, of_0_1(8)), "b": (1, written(200, 10))}, "ba", id="0.1 before what came after it"),
    ],
)
def test_the_newest_is(files, newest):
    assert order(**files) == newest


AHEAD = time.time_ns() + 10**18


@pytest.mark.parametrize(
    ("files", "newest"),
    [
        pytest.param(
            {"a": (3, written(AHEAD, 9)), "b": (7, written(7, 2, "b"))}, "ba", id="the file's time is another clock's"
        ),
        pytest.param(
            {"a": (AHEAD, written(AHEAD, 9)), "b": (5, written(5, 2, "b"))}, "ba", id="the file's time is ahead too"
        ),
        pytest.param({"a": (AHEAD, None), "b": (5, written(5, 2))}, "ba", id="a file that says nothing"),
        pytest.param(
            {"a": (5, written(5, 8)), "n": (AHEAD, written(AHEAD, 10))}, "na", id="a clock set forward in one run"
        ),
        pytest.param(
            {"a": (5, written(5, 8)), "n": (AHEAD, written(AHEAD, 10)), "b": (6, written(6, 2, "b"))},
            "bna",
            id="another run after one that set the clock forward",
        ),
        pytest.param(
            {"a": (AHEAD, written(AHEAD, 8)), "b": (AHEAD, written(AHEAD + 1, 2, "b"))}, "ba", id="all are ahead"
        ),
    ],
)
def test_a_clock_that_was_ahead_makes_no_run_the_newest(files, newest):
    assert order(**files) == newest


def test_what_holds_weights_only_is_the_last_to_resume_from():
    files = {"w": (9, written(300, 8, weights_only=True)), "a": (1, written(100, 8)), "b": (1, written(200, 8))}
    assert order(**files) == "wba"
    assert order(**files, resuming=True) == "baw"
