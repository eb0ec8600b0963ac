"""The kit finds what is wrong, and nothing can be hidden from it."""

import subprocess
import sys
from xml.etree import ElementTree as ET

import pytest

from lt_strategies.conformance import StrategyConformance, xfail
from lt_strategies.conformance.checks import load_checks

BROKEN = """
import os, pytest
from lt_strategies import DDP
from lt_strategies.conformance import StrategyConformance, xfail

class Backwards(DDP):
    def all_gather(self, tensor):
        return super().all_gather(tensor).flip(0)

class Silent(DDP):
    def bind(self, module, method):
        return getattr(module, method)

class Dying(DDP):
    def peek(self, key):
        os._exit(7)

class TestBackwards(StrategyConformance):
    world_sizes = (2,)
    test_all_gather_takes_what_is_not_contiguous = xfail(reason="backwards too")
    test_a_barrier_waits_for_the_last_rank = xfail(reason="it does wait, so this xfail is wrong")
    @pytest.fixture
    def strategy(self):
        return Backwards

class TestSilent(StrategyConformance):
    world_sizes = (2,)
    @pytest.fixture
    def strategy(self):
        return Silent

class TestDying(StrategyConformance):
    world_sizes = (2,)
    @pytest.fixture
    def strategy(self):
        return Dying
"""


def test_the_kit_has_more_than_forty_checks_whose_names_are_sentences():
    assert len(load_checks()) >= 40
    assert all("_" in name for name in load_checks())


def test_overriding_a_check_is_an_error():
    with pytest.raises(TypeError, match=r'say so: test_a_removed_checkpoint_is_gone = xfail\(reason="..."\)'):

        class Sly(StrategyConformance):
            def test_a_removed_checkpoint_is_gone(self):
                pass


def test_an_xfail_of_a_check_that_does_not_exist_is_an_error():
    with pytest.raises(TypeError, match="no such check"):

        class Unknown(StrategyConformance):
            test_that_is_not_there = xfail(reason="misspelt")


def test_an_xfail_without_a_reason_is_an_error():
    with pytest.raises(ValueError, match="say why"):
        xfail(reason=" ")


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    """Run the kit on three wrong strategies; return for each class and test what pytest's report says."""
    folder = tmp_path_factory.mktemp("broken")
    (folder / "test_broken.py").write_text(BROKEN)
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    subprocess.run([*command, "--rootdir", str(folder), str(folder)], capture_output=True, timeout=120, check=False)
    found = {}
    for case in ET.parse(report).iter("testcase"):
        told = [child for child in case if child.tag in ("failure", "skipped", "error")]
        key = case.get("classname").rpartition(".")[2], case.get("name").removesuffix("[2-ranks]")
        found[key] = (told[0].tag, told[0].get("message") + (told[0].text or "")) if told else ("passed", "")
    return found


@pytest.mark.ddp
@pytest.mark.parametrize(
    ("strategy", "check", "status", "message"),
    [
        ("Backwards", "all_gather_stacks_in_rank_order", "failure", "assert torch.equal"),
        ("Backwards", "all_gather_takes_what_is_not_contiguous", "skipped", "backwards too"),
        ("Backwards", "a_barrier_waits_for_the_last_rank", "failure", "[XPASS(strict)] it does wait"),
        ("Backwards", "all_reduce_takes_single_numbers", "passed", ""),
        ("Silent", "gradients_are_reduced_when_backward_returns", "failure", "rank 1:"),
        ("Silent", "twenty_steps_of_sgd_equal_plain_torch_on_the_joined_batches", "failure", "rank 0:"),
        ("Silent", "all_gather_stacks_in_rank_order", "passed", ""),
        ("Dying", "many_kinds_of_talk_keep_their_order", "passed", ""),
        ("Dying", "a_message_is_seen_by_every_rank", "failure", "not run: the job ended before"),
        ("Dying", "an_exception_on_one_rank_ends_all_ranks_and_comes_out", "failure", "exited with status 7"),
    ],
)
def test_a_wrong_strategy_fails_where_it_is_wrong_and_only_there(broken, strategy, check, status, message):
    found, text = broken[f"Test{strategy}", f"test_{check}"]
    assert found == status
    assert message in text
