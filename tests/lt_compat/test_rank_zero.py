import pytest

from lt_compat.lightning.rank_zero import (
    rank_zero_deprecation,
    rank_zero_experiment,
    rank_zero_info,
    rank_zero_only,
    rank_zero_warn,
)
from lt_core.errors import LtDeprecationWarning
from lt_core.logger import Logger


def test_rank_zero_runs_the_function():
    assert rank_zero_only(lambda x: x + 1)(1) == 2
    assert rank_zero_only.rank == 0


def test_other_ranks_return_the_default(monkeypatch):
    monkeypatch.setenv("RANK", "1")
    assert rank_zero_only(lambda x: x + 1)(1) is None
    assert rank_zero_only(lambda x: x + 1, default=7)(1) == 7


def test_a_warning_points_at_the_caller():
    with pytest.warns(UserWarning, match="careful") as caught:
        rank_zero_warn("careful")
    assert caught[0].filename == __file__


def test_a_deprecation_points_at_the_caller():
    with pytest.warns(LtDeprecationWarning, match="old") as caught:
        rank_zero_deprecation("old")
    assert caught[0].filename == __file__


def test_other_ranks_say_nothing(monkeypatch, caplog, recwarn):
    monkeypatch.setenv("RANK", "1")
    with caplog.at_level("INFO", logger="lt"):
        rank_zero_info("hello")
        rank_zero_warn("careful")
    assert not caplog.records
    assert not recwarn.list


def test_rank_zero_logs(caplog):
    with caplog.at_level("INFO", logger="lt"):
        rank_zero_info("hello %s", "you")
    assert caplog.messages == ["hello you"]


def test_an_experiment_is_opened_on_rank_zero_alone(monkeypatch):
    class Own(Logger):
        @property
        @rank_zero_experiment
        def experiment(self):
            return ["opened"]

    assert Own().experiment == ["opened"]
    monkeypatch.setenv("RANK", "1")
    assert Own().experiment.add_scalar("loss", 1.0) is None
