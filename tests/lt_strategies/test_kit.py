"""The kit finds what is wrong, and nothing can be hidden from it."""

import os
import re
import sys
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from tests import warm
from tests.patience import PATIENCE

from lt_testing import StrategyConformance, xfail
from lt_testing.strategy.checks import load_checks

BROKEN = """
import os, pytest, time, torch
from contextlib import nullcontext
from dataclasses import replace
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from lt_core.strategy import Shard, Strategy
from lt_strategies import DDP, Distributed
from lt_testing import StrategyConformance, xfail

torch.optim.SGD([torch.zeros(1)])  # imports what an optimizer needs, once for all forks

class Backwards(DDP):
    def all_gather(self, tensor):
        return super().all_gather(tensor).flip(0)

class Silent(DDP):  # gradients are not reduced
    def bind(self, module, method):
        return getattr(module, method)

class Summing(DDP):  # the wrong divisor
    def backward(self, loss, *args, **kwargs):
        super().backward(loss * self.world_size, *args, **kwargs)

class Chatty(DDP):  # reduces after each micro-batch
    def accumulating(self, module, last):
        return nullcontext()

class Quiet(DDP):  # never reduces an accumulated window
    def accumulating(self, module, last):
        return super().accumulating(module, False)

class Disorderly(DDP):  # whoever is asked for, rank 0 is heard
    def broadcast(self, value, src=0):
        return super().broadcast(value, 0)

class Forgetful(DDP):  # a part of the data is read by nobody
    @property
    def data_shard(self):
        return Shard(self.rank, self.world_size + 1)

class Amnesiac(DDP):  # momentum and moments are lost at a resume
    def load_optimizer_state(self, module, optimizer, state):
        pass

class Stubborn(DDP):  # weights are not restored
    def load_module_state(self, module, state, strict=True):
        pass

class Diverse(DDP):  # every rank keeps its own first values
    def _broadcast_module(self, module):
        pass

class Unclipped(DDP):
    def clip_gradients(self, params, value, algorithm="norm"):
        return super().clip_gradients(params, 1e9, algorithm)

class Eager(DDP):  # takes the step twice
    def optimizer_step(self, optimizer, closure=None):
        super().optimizer_step(optimizer, closure)
        return super().optimizer_step(optimizer)

class Firstborn(DDP):  # of several optimizers, only the first takes steps
    def setup(self, module, make_optimizers, precision):
        module, self._all = super().setup(module, make_optimizers, precision)
        return module, self._all
    def optimizer_step(self, optimizer, closure=None):
        return super().optimizer_step((self._all or [optimizer])[0], closure)

class Everywhere(DDP):  # every rank writes the file
    def save_checkpoint(self, io, tree, path):
        io.save_checkpoint(tree, path)

class Elsewhere(DDP):  # the last rank writes it
    def save_checkpoint(self, io, tree, path):
        if self.rank == self.world_size - 1:
            io.save_checkpoint(tree, path)

class Littering(DDP):
    def remove_checkpoint(self, io, path):
        pass

class Racing(DDP):  # every rank removes the file
    def remove_checkpoint(self, io, path):
        io.remove_checkpoint(path)

class Leaving(DDP):  # the group is gone at a run's end
    def close(self, error=None):
        super().close(error)
        self._group = None

class Adding(DDP):  # takes a maximum for a sum
    def all_reduce(self, tensor, op="mean"):
        return super().all_reduce(tensor, "sum" if op == "max" else op)

class Careless(DDP):  # writes into what it was given
    def all_reduce(self, tensor, op="mean"):
        reduced = super().all_reduce(tensor, op)
        if tensor.is_floating_point():
            tensor.data.copy_(reduced)
        return reduced

class Lost(DDP):  # only rank 0's messages arrive
    def post(self, key, value):
        if self.rank == 0:
            super().post(key, value)

class Prefixed(DDP):  # torch's wrapper shows in a checkpoint's names
    def module_state(self, module):
        return {f"module.{name}": value for name, value in super().module_state(module).items()}

class Unbuffered(DDP):  # each rank keeps its own first buffers
    def _broadcast_module(self, module):
        self.broadcast_tensors(list(module.parameters()))

class Hasty(DDP):  # an optimizer's closure is not called
    def optimizer_step(self, optimizer, closure=None):
        return super().optimizer_step(optimizer)

class Totals(DDP):  # what direct backwards left is summed
    def reduce_gradients(self, params):
        params = list(params)
        super().reduce_gradients(params)
        for param in params:
            param.grad = None if param.grad is None else param.grad * self.world_size

class Hurried(DDP):  # nobody waits
    def barrier(self, name=""):
        pass

class Reader(DDP):  # rank 0 keeps the checkpoint to itself
    def load_checkpoint(self, io, path, **how):
        tree = super().load_checkpoint(io, path, **how)
        return tree if self.rank == 0 else {}

class Unsure(DDP):  # does not say whether it took the step
    def optimizer_step(self, optimizer, closure=None):
        super().optimizer_step(optimizer, closure)

class Typeless(DDP):  # everything crosses in 32 bits
    def all_reduce(self, tensor, op="mean"):
        return super().all_reduce(tensor.float(), op).to(tensor.dtype)

class Mute(DDP):  # the others are not let know of an error
    def close(self, error=None):
        super().close()

class Rounded(DDP):  # loses half of each gradient's bits on the way, and says so
    capabilities = replace(DDP().capabilities, lossy=True)
    def backward(self, loss, *args, **kwargs):
        super().backward(loss, *args, **kwargs)
        for param in self._module.parameters():
            param.grad = None if param.grad is None else param.grad.bfloat16().to(param.dtype)
    def setup(self, module, make_optimizers, precision):
        self._module, optimizers = super().setup(module, make_optimizers, precision)
        return self._module, optimizers

class Useless(Rounded):  # climbs
    def backward(self, loss, *args, **kwargs):
        super().backward(loss, *args, **kwargs)
        for param in self._module.parameters():
            param.grad = None if param.grad is None else -param.grad

class TopK(Rounded):  # each rank sends the largest tenth, and adds what it left out to its next gradients
    send, sign = 0.1, 1.0
    def setup(self, module, make_optimizers, precision):
        self._left = {}
        return super().setup(module, make_optimizers, precision)
    def bind(self, module, method):
        return getattr(module, method)
    def accumulating(self, module, last):
        self._last = last
        return nullcontext()
    def backward(self, loss, *args, **kwargs):
        Distributed.backward(self, loss, *args, **kwargs)
        if getattr(self, "_last", True):
            self.reduce_gradients(self._module.parameters())
    def reduce_gradients(self, params):
        for param in [param for param in params if param.requires_grad]:
            mine = torch.zeros_like(param) if param.grad is None else param.grad
            whole = mine + self.sign * self.left(param)
            least = whole.abs().flatten().topk(max(1, int(self.send * whole.numel()))).values[-1]
            sent = torch.where(whole.abs() >= least, whole, 0.0)
            self._left[param] = whole - sent
            param.grad = self.all_reduce(sent)
    def left(self, param):
        return self._left.get(param, torch.zeros_like(param))
    def state_dict(self):
        return {"left": [self.left(param) for param in self._module.parameters()]}
    def load_state_dict(self, state):
        self._left = dict(zip(self._module.parameters(), state["left"]))

class LeavesOut(TopK):  # without error feedback
    def left(self, param):
        return torch.zeros_like(param)

class WrongSign(TopK):
    sign = -1.0

class ForgetsErrors(TopK):  # the errors are not in state_dict
    def state_dict(self):
        return {}
    def load_state_dict(self, state):
        pass

class PowerSGD(DDP):  # torch's own
    feedback = True
    def __init__(self):
        state = powerSGD_hook.PowerSGDState(None, 2, start_powerSGD_iter=2, use_error_feedback=self.feedback)
        super().__init__(ddp_comm_state=state, ddp_comm_hook=powerSGD_hook.powerSGD_hook)

class PowerLess(PowerSGD):
    feedback = False

class Lopsided(DDP):  # fails on one rank, and the other one waits
    def broadcast(self, value, src=0):
        assert self.rank != 1
        return super().broadcast(value, src)

class Dying(DDP):
    def peek(self, key):
        os._exit(7)

class Killed(DDP):  # one rank is gone in the midst of a check, and the other one hears of it
    def all_gather(self, tensor):
        if self.rank == 1:
            while self.peek("closed") is None:
                time.sleep(0.1)
            time.sleep(0.5)  # until rank 0 has left its note
            os.kill(os.getpid(), 9)
        self.post("closed", "")
        raise ConnectionError("closed by peer")

class Kit(StrategyConformance):
    __test__ = False
    world_sizes = (2,)
    @pytest.fixture
    def strategy(self):
        return globals()[type(self).__name__.removeprefix("Test")]

DECLARED = {
    "test_all_gather_takes_what_is_not_contiguous": xfail(reason="backwards too"),
    "test_a_barrier_waits_for_the_last_rank": xfail(reason="it does wait, so this xfail is wrong"),
}
for kind in os.environ["KINDS"].split():
    members = {"__test__": True, "__module__": __name__, **(DECLARED if kind == "Backwards" else {})}
    globals()[f"Test{kind}"] = type(f"Test{kind}", (Kit,), members)
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


def kit_on(folder, kinds):
    """Run the kit on wrong strategies; return for each class and test what pytest's report says."""
    (folder / "test_broken.py").write_text(BROKEN)
    report = folder / "report.xml"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"--junitxml={report}"]
    environment = {**os.environ, "KINDS": " ".join(sorted(kinds))}
    paths = ["--rootdir", str(folder), str(folder)]
    warm.run([*command, *paths], env=environment, capture_output=True, timeout=PATIENCE, check=False)
    found = {}
    for case in ET.parse(report).iter("testcase"):
        told = [child for child in case if child.tag in ("failure", "skipped", "error")]
        key = case.get("classname").rpartition(".")[2], case.get("name").removesuffix("[2-ranks]")
        found[key] = (told[0].tag, told[0].get("message") + (told[0].text or "")) if told else ("passed", "")
    return found


@pytest.fixture(scope="module")
def broken(tmp_path_factory):
    return kit_on(
        tmp_path_factory.mktemp("broken"),
        {"Backwards", "Silent", "Rounded", "TopK", "PowerSGD", "LeavesOut", "Lopsided", "Dying", "Killed"},
    )


@pytest.fixture(scope="module")
def mutants(tmp_path_factory):
    return kit_on(tmp_path_factory.mktemp("mutants"), {kind for kind, _ in CAUGHT_BY})


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
        (
            "Rounded",
            "twenty_steps_of_sgd_equal_plain_torch_on_the_joined_batches",
            "skipped",
            "lacks the capability exact",
        ),
        ("Rounded", "training_converges_where_plain_torch_does", "passed", ""),
        ("TopK", "training_converges_where_plain_torch_does", "passed", ""),
        ("TopK", "replicas_that_differ_go_on_as_they_were_when_a_run_resumes", "passed", ""),
        ("PowerSGD", "training_converges_where_plain_torch_does", "passed", ""),
        ("LeavesOut", "training_converges_where_plain_torch_does", "failure", "moves from 0 to 0.15 are at 0"),
        ("Lopsided", "objects_are_broadcast_from_any_rank", "failure", "waits for rank_1, which has failed"),
        ("Lopsided", "peeking_for_a_message_that_nobody_left_does_not_wait", "passed", ""),
        ("Rounded", "clipping_by_norm_returns_the_norm_before", "passed", ""),
        ("Rounded", "clipping_by_norm_scales_all_gradients", "passed", ""),
        ("Rounded", "replicas_that_differ_go_on_as_they_were_when_a_run_resumes", "passed", ""),
        ("Killed", "all_gather_stacks_in_rank_order", "failure", "rank 0:\nTraceback"),
        ("Killed", "all_gather_stacks_in_rank_order", "failure", "ended without a word; the launch said: RankError"),
        ("Killed", "all_gather_stacks_in_rank_order", "failure", "Rank 1 of 2 was killed by SIGKILL"),
        ("Killed", "a_message_is_seen_by_every_rank", "passed", ""),
        ("Dying", "many_kinds_of_talk_keep_their_order", "passed", ""),
        ("Dying", "a_message_is_seen_by_every_rank", "failure", "not run: the job ended before"),
        ("Dying", "an_exception_on_one_rank_ends_all_ranks_and_comes_out", "failure", "exited with status 7"),
    ],
)
def test_a_wrong_strategy_fails_where_it_is_wrong_and_only_there(broken, strategy, check, status, message):
    found, text = broken[f"Test{strategy}", f"test_{check}"]
    assert found == status
    assert message in text


CAUGHT_BY = [
    ("Summing", "gradients_are_reduced_when_backward_returns"),
    ("Summing", "fit_equals_plain_torch_on_the_joined_batches"),
    ("Chatty", "before_a_window_s_last_micro_batch_nothing_is_reduced"),
    ("Quiet", "accumulated_steps_equal_plain_torch_on_the_joined_batches"),
    ("Disorderly", "objects_are_broadcast_from_any_rank"),
    ("Disorderly", "tensors_are_broadcast_with_shape_and_dtype"),
    ("Forgetful", "data_shards_cover_the_data_without_overlap"),
    ("Forgetful", "evaluation_counts_each_of_13_samples_once"),
    ("Amnesiac", "a_restored_run_goes_on_as_the_uninterrupted_one"),
    ("Amnesiac", "a_run_that_resumes_ends_as_the_uninterrupted_one"),
    ("Stubborn", "restored_weights_are_those_that_were_saved_on_rank_0"),
    ("Stubborn", "a_full_state_of_a_plain_module_can_be_loaded"),
    ("Diverse", "all_ranks_start_from_the_same_parameters_and_buffers"),
    ("Unclipped", "clipped_steps_of_adamw_equal_plain_torch_on_the_joined_batches"),
    ("Unclipped", "clipping_by_norm_scales_all_gradients"),
    ("Everywhere", "rank_0_alone_writes_a_file_and_writes_it_once"),
    ("Elsewhere", "rank_0_alone_writes_a_file_and_writes_it_once"),
    ("Littering", "a_removed_checkpoint_is_gone"),
    ("Racing", "rank_0_alone_removes_a_file"),
    ("Leaving", "ranks_still_talk_after_the_end_of_a_run"),
    ("Adding", "all_reduce_means_sums_and_finds_extremes"),
    ("Careless", "all_reduce_leaves_its_input_alone"),
    ("Lost", "a_message_is_seen_by_every_rank"),
    ("Prefixed", "a_checkpoint_loads_on_one_cpu_without_the_strategy"),
    ("Unbuffered", "all_ranks_start_from_the_same_parameters_and_buffers"),
    ("Hasty", "an_optimizer_step_runs_its_closure"),
    ("Totals", "reduce_gradients_averages_what_direct_backwards_left"),
    ("Hurried", "a_barrier_waits_for_the_last_rank"),
    ("Reader", "every_rank_reads_back_what_was_saved"),
    ("Unsure", "an_optimizer_step_says_whether_it_was_taken"),
    ("Typeless", "all_reduce_keeps_integers_and_double_precision_exact"),
    ("Mute", "ranks_that_wait_for_one_that_closed_with_an_error_get_an_error"),
    ("Useless", "training_converges_where_plain_torch_does"),
    ("WrongSign", "training_converges_where_plain_torch_does"),
    ("PowerLess", "training_converges_where_plain_torch_does"),
    ("ForgetsErrors", "replicas_that_differ_go_on_as_they_were_when_a_run_resumes"),
    ("Firstborn", "two_optimizers_train_as_one_over_the_parameters_of_both"),
    ("Eager", "twenty_steps_of_adam_equal_plain_torch_on_the_joined_batches"),
]


def test_the_docs_list_what_is_caught():
    page = (Path(__file__).parents[2] / "docs" / "write-a-strategy.md").read_text(encoding="utf-8")
    rows = page.partition("| mistake |")[2].partition("\n\n")[0]
    assert set(re.findall(r"`(\w+)`", rows)) == {check for _, check in CAUGHT_BY}


@pytest.mark.ddp
@pytest.mark.slow
@pytest.mark.parametrize(("strategy", "check"), CAUGHT_BY)
def test_a_mistake_put_into_ddp_is_caught(mutants, strategy, check):
    assert mutants[f"Test{strategy}", f"test_{check}"][0] == "failure"


@pytest.mark.ddp
@pytest.mark.slow
def test_a_mistake_that_costs_time_only_leaves_the_numbers_right(mutants):
    assert mutants["TestChatty", "test_accumulated_steps_equal_plain_torch_on_the_joined_batches"][0] == "passed"
