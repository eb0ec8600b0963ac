"""``Trainer(compile=...)``: the same numbers and keys as without it, and a report of what torch made of the step."""

import importlib

import pytest
import torch

from lt_core import plugins
from lt_loops.setup.loaders import module_of

# torch hides this warning of its own while it traces, but not from a filter that makes it an error
pytestmark = pytest.mark.filterwarnings("default:The .grad attribute of a Tensor:UserWarning")

reports = pytest.mark.skipif(plugins.find("defaults", "compile_report") is None, reason="lt-profilers reports")

EAGER = {"backend": "eager"}  # graphs are made and counted as ever; only the code generation is left away


@pytest.fixture(autouse=True)
def forgotten():
    """Every test compiles anew."""
    torch._dynamo.reset()


class Breaking:
    """What makes a graph break: reading a value in the middle of the step."""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        if loss.item() > 1e9:
            raise ValueError("the loss explodes")
        return loss * 1.0


def test_a_compiled_step_trains_as_the_plain_one_and_keeps_the_keys(trainer, net, loader, seeded, same):
    plain = seeded(net)
    trainer(max_epochs=2).fit(plain, loader())
    compiled = seeded(net)
    trainer(max_epochs=2, compile=EAGER).fit(compiled, loader())
    same(compiled, plain)
    assert list(compiled.state_dict()) == list(net().state_dict())


@reports
def test_a_whole_graph_is_reported_as_such_after_the_first_epoch(trainer, net, loader, capsys):
    trainer(max_epochs=3, compile=EAGER).fit(net(), loader())
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("torch.compile")]
    assert told == ["torch.compile, after the first epoch: 1 program, 0 graph breaks, 0 recompilations"]


@reports
def test_a_graph_break_is_reported_with_function_line_and_reason(trainer, net, loader, capsys):
    kind = type("Net", (Breaking, net), {})
    trainer(compile=EAGER, limit_train_batches=1).fit(kind(), loader())
    head, line, *_ = [line for line in capsys.readouterr().out.splitlines() if "compile" in line or "break" in line]
    assert "1 graph break, " in head
    assert line.startswith("  graph break in training_step (test_compile.py:")
    assert "Tensor.item()" in line


class Logging:
    """Logs in each step: tensors, one of which it changes afterwards, and plain numbers."""

    def training_step(self, batch, batch_idx):
        loss = self.loss(batch)
        seen = loss.detach() * 2
        self.log("loss", loss, on_step=True, on_epoch=True, prog_bar=True)
        self.log_dict({"twice": seen, "one": 1.0}, on_epoch=True, on_step=False)
        self.log("largest", seen, reduce_fx="max", on_step=False, on_epoch=True, batch_size=3)
        seen += 100
        return loss


@reports
def test_what_a_step_logs_leaves_its_graph_whole_and_is_the_same(trainer, net, loader, seeded, same, capsys):
    kind = type("Net", (Logging, net), {})
    plain, compiled = seeded(kind), None
    by_hand = trainer(max_epochs=2)
    by_hand.fit(plain, loader())
    compiled = seeded(kind)
    whole = trainer(max_epochs=2, compile={**EAGER, "fullgraph": True})
    whole.fit(compiled, loader())
    same(compiled, plain)
    assert whole.callback_metrics == by_hand.callback_metrics
    assert "0 graph breaks" in capsys.readouterr().out


def test_a_step_that_the_user_compiles_whole_is_told_how_to_log(trainer, net, loader):
    pytest.importorskip("lt_explain", reason="it says so")
    module = type("Net", (Logging, net), {})()
    module.training_step = torch.compile(module.training_step, backend="eager", fullgraph=True)
    with pytest.raises(torch._dynamo.exc.Unsupported) as caught:
        trainer().fit(module, loader())
    assert "Trainer(compile={'fullgraph': True})" in caught.value.__notes__[-1]


@reports
def test_batches_of_other_sizes_are_reported_as_recompilations(trainer, net, loader, capsys):
    trainer(compile={**EAGER, "dynamic": False}).fit(net(), loader(samples=10))
    out = capsys.readouterr().out
    assert "1 recompilation\n" in out
    assert "recompilation of training_step" in out
    assert "size mismatch at index 0. expected 4, actual 2" in out


class Validating:
    """Validates with the loss that it trains with."""

    def validation_step(self, batch, batch_idx):
        self.log("val", self.loss(batch))


@pytest.mark.parametrize("samples", [8, 10], ids=["equal batches", "a smaller last batch"])
def test_validation_accumulation_and_a_resume_compile_nothing_that_a_loop_by_hand_does_not(
    samples, trainer, net, loader, tmp_path
):
    programs, kind = {"by hand": 0, "lt": 0}, type("Net", (Validating, net), {})

    def counting(who):
        def backend(graph, inputs):
            programs[who] += 1
            return graph.forward

        return {"backend": backend}

    step = torch.compile(net().training_step, **counting("by hand"))
    for _ in range(2):
        for index, batch in enumerate(loader(samples)):
            step(batch, index).backward()
    torch._dynamo.reset()
    both = {"compile": counting("lt"), "accumulate_grad_batches": 2}
    first = trainer(max_epochs=2, **both)
    first.fit(kind(), loader(samples), loader(samples))
    first.save_checkpoint(tmp_path / "last.ckpt")
    trainer(max_epochs=4, **both).fit(kind(), loader(samples), loader(samples), ckpt_path=tmp_path / "last.ckpt")
    assert programs["lt"] == programs["by hand"] == (1 if samples == 8 else 2)


def test_without_compile_nothing_is_reported(trainer, net, loader, capsys):
    trainer().fit(net(), loader())
    assert "torch.compile" not in capsys.readouterr().out


@pytest.mark.parametrize("own", [{}, {"dynamic": True}, {"fullgraph": True}])
def test_a_module_that_was_compiled_whole_is_compiled_by_its_own_backend(own, trainer, net, loader, same):
    def backend(graph, inputs):
        calls.append(graph)
        return graph.forward

    calls = []
    torch.manual_seed(5)
    mine = net()
    trainer().fit(torch.compile(mine, backend=backend, **own), loader())
    assert calls
    torch.manual_seed(5)
    plain = net()
    trainer().fit(plain, loader())
    same(mine, plain)


def test_what_torch_compile_was_given_goes_on_to_the_step(net):
    # torch 2.13's `_dynamo.reset` imports this while it iterates over its backends, and the import adds one to them
    importlib.import_module("torch._inductor.cudagraph_trees")
    module, given = module_of(torch.compile(net(), mode="reduce-overhead", dynamic=False, fullgraph=True), "fit")
    assert isinstance(module, net)
    assert (given["dynamic"], given["fullgraph"]) == (False, True)
    assert given["backend"].config["triton.cudagraphs"]
