"""The kit for profilers: core's own pass it, and wrong ones do not."""

import os
import sys
from contextlib import contextmanager, suppress
from pathlib import Path
from unittest import mock

import pytest
import torch

from lt_core import Profiler
from lt_testing import ProfilerKit


class TestNothingIsMeasured(ProfilerKit):
    names_all = False

    def make_profiler(self, folder):
        return Profiler()


class Actions:
    """A profiler as Lightning has them."""

    def __init__(self):
        self.names = []

    def start(self, name):
        self.names.append(name)

    def stop(self, name):
        pass

    def summary(self):
        return " ".join(self.names)

    def describe(self):
        print(self.summary())


class TestActions(ProfilerKit):
    def make_profiler(self, folder):
        return pytest.importorskip("lt_compat.lightning.action_profiler").ActionProfiler(Actions())


class Counting(Profiler):
    """Counts calls; what is wrong derives from it."""

    def __init__(self):
        self.calls = {}

    def wrap(self, name, function):
        def counted(*args, **kwargs):
            self.calls[name] = self.calls.get(name, 0) + 1
            return function(*args, **kwargs)

        return counted

    @contextmanager
    def profile(self, name):
        self.calls[name] = self.calls.get(name, 0) + 1
        yield

    def summary(self):
        return "\n".join(f"{name}: {calls}" for name, calls in self.calls.items())


class TestCounting(ProfilerKit):
    def make_profiler(self, folder):
        return Counting()


class LosesResults(Counting):
    def wrap(self, name, function):
        def counted(*args, **kwargs):
            function(*args, **kwargs)

        return counted


class SwallowsErrors(Counting):
    @contextmanager
    def profile(self, name):
        with suppress(Exception):
            yield


class StopsAtTheEndOfTheData(Counting):
    def wrap(self, name, function):
        def counted(*args):
            try:
                return function(*args)
            except StopIteration as error:
                raise RuntimeError("no more data") from error

        return counted


class OneOfAName(Counting):
    """Keeps what it wraps by name."""

    def __init__(self):
        super().__init__()
        self.wrapped = {}

    def wrap(self, name, function):
        return self.wrapped.setdefault(name, super().wrap(name, function))


class NeedsAStart(Counting):
    def start(self, stage, log_dir):
        self.running = True

    def stop(self):
        del self.running

    def wrap(self, name, function):
        def counted(*args, **kwargs):
            assert self.running
            return function(*args, **kwargs)

        return counted


class Samples(Counting):
    """Measures one batch in so many, which it draws."""

    def step(self):
        torch.rand(1)


class Litters(Counting):
    def stop(self):
        Path("profile.txt").write_text(self.summary())


class Unnamed(Counting):
    def summary(self):
        return f"{len(self.calls)} names"


class Holds(Counting):
    def __init__(self):
        super().__init__()
        self.clock = lambda: 0


class NotTwice(Counting):
    def start(self, stage, log_dir):
        assert not self.calls, "used already"


class Traces(Counting):
    """Does not stop what it has started."""

    def start(self, stage, log_dir):
        sys.setprofile(lambda *_: None)


class SetsAVariable(Counting):
    def start(self, stage, log_dir):
        os.environ["COUNTING"] = log_dir


class CallsTwice(Counting):
    """Warms up."""

    def wrap(self, name, function):
        counted = super().wrap(name, function)

        def warmed(*args, **kwargs):
            counted(*args, **kwargs)
            return counted(*args, **kwargs)

        return warmed


class TakesNoKeywords(Counting):
    def wrap(self, name, function):
        counted = super().wrap(name, function)
        return lambda *args: counted(*(args or ()))


class ForgetsTheRest(Counting):
    """Ends its measuring where a block fails."""

    @contextmanager
    def profile(self, name):
        self.running = getattr(self, "running", 0)
        assert self.running == 0, f"{name} stands in another block"
        self.running += 1
        yield
        self.running -= 1


CAUGHT_BY = [
    (Traces, "test_no_random_number_is_drawn"),
    (SetsAVariable, "test_no_random_number_is_drawn"),
    (CallsTwice, "test_arguments_and_result_pass_through_one_call"),
    (TakesNoKeywords, "test_arguments_and_result_pass_through_one_call"),
    (ForgetsTheRest, "test_measured_calls_may_stand_in_one_another"),
    (LosesResults, "test_arguments_and_result_pass_through_one_call"),
    (SwallowsErrors, "test_an_error_comes_out_and_measuring_goes_on"),
    (StopsAtTheEndOfTheData, "test_the_end_of_the_data_is_no_error"),
    (OneOfAName, "test_functions_of_one_name_are_each_called"),
    (NeedsAStart, "test_what_was_wrapped_works_before_start_and_after_stop"),
    (NeedsAStart, "test_a_second_stop_does_nothing"),
    (Samples, "test_no_random_number_is_drawn"),
    (Litters, "test_nothing_is_written_outside_its_folder_and_the_run_s"),
    (Unnamed, "test_the_report_names_what_was_measured"),
    (Holds, "test_it_can_be_pickled_before_a_run"),
    (NotTwice, "test_one_object_serves_several_runs"),
]


@pytest.mark.parametrize(("kind", "test"), CAUGHT_BY)
def test_a_wrong_profiler_fails_where_it_is_wrong(kind, test, caught_by):
    class Wrong(ProfilerKit):
        __test__ = False

        def make_profiler(self, folder):
            return kind()

    try:
        with mock.patch.dict(os.environ):
            assert caught_by(Wrong, test)
    finally:
        sys.setprofile(None)
