"""Attributes that a captured step reads or writes: the numbers of the run without graphs, or an error."""

from contextlib import nullcontext

import pytest
import torch

from lt_core.errors import ConfigError
from lt_graphs import GraphSteps

DEVICES = ["cpu", pytest.param("cuda", marks=pytest.mark.cuda)]


@pytest.fixture
def graphs(device, request):
    """Have the CPU capture, by the stand-in."""
    return request.getfixturevalue("stand_in") if device == "cpu" else None


@pytest.fixture
def run(trainer, net, loader, device):
    """Train a net with members of one's own; return what its hook saw, its weights and its Trainer."""

    def run(members, use, /, *, start=None, end=None, samples=42, **arguments):
        class Net(net):
            def training_step(self, batch, batch_idx):
                return use(self, batch, self.loss(batch))

            if start is not None:

                def on_train_batch_start(self, batch, batch_idx):
                    start(self, batch_idx)

            if end is not None:

                def on_train_batch_end(self, outputs, batch, batch_idx):
                    end(self, outputs)

        torch.manual_seed(5)
        module, seen = Net(**members(torch.device(device))), []
        module.layers[2].p, module.seen = 0.0, seen
        fitted = trainer(max_epochs=2, accelerator=device, devices=1, **arguments)
        fitted.fit(module, loader(samples=samples, shuffle=False))
        return seen, [p.detach().cpu().clone() for p in module.parameters()], fitted

    return run


def close(one, other):
    torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


class Box:
    """An object of the user's."""

    def __init__(self, **values):
        self.__dict__.update(values)


def one(device):
    return torch.ones((), device=device)


# each: what the module has, how a step uses it, what a hook does to it between two steps
READ = {
    "tensor": (lambda d: {"factor": one(d)}, lambda m, f: setattr(m, "factor", m.factor * f), lambda m: m.factor),
    "tensor in place": (lambda d: {"factor": one(d)}, lambda m, f: m.factor.mul_(f), lambda m: m.factor),
    "number": (lambda d: {"factor": 1.0}, lambda m, f: setattr(m, "factor", m.factor * f), lambda m: m.factor),
    "in a list": (lambda d: {"kept": [one(d)]}, lambda m, f: m.kept.__setitem__(0, m.kept[0] * f), lambda m: m.kept[0]),
    "number in a list": (lambda d: {"kept": [1.0]}, lambda m, f: m.kept.__setitem__(0, f), lambda m: m.kept[0]),
    "in a dict": (
        lambda d: {"kept": {"a": one(d)}},
        lambda m, f: m.kept.update(a=m.kept["a"] * f),
        lambda m: m.kept["a"],
    ),
    "in a tuple": (
        lambda d: {"kept": (one(d),)},
        lambda m, f: setattr(m, "kept", (m.kept[0] * f,)),
        lambda m: m.kept[0],
    ),
    "of an object": (
        lambda d: {"box": Box(factor=one(d))},
        lambda m, f: setattr(m.box, "factor", m.box.factor * f),
        lambda m: m.box.factor,
    ),
    "number of an object": (
        lambda d: {"box": Box(inner=Box(factor=1.0))},
        lambda m, f: setattr(m.box.inner, "factor", f),
        lambda m: m.box.inner.factor,
    ),
    "of a layer": (
        lambda d: {},
        lambda m, f: setattr(m.layers[0], "factor", getattr(m.layers[0], "factor", 1.0) * f),
        lambda m: getattr(m.layers[0], "factor", 1.0),
    ),
    "an item more": (lambda d: {"kept": [1.0]}, lambda m, f: m.kept.append(f), lambda m: sum(m.kept)),
    "a setting of torch's": (lambda d: {}, lambda m, f: setattr(m.layers[2], "p", 0.99), lambda m: 1.0),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("kind", READ)
def test_what_a_hook_changes_between_two_steps_counts_in_the_next(kind, run, graphs, device):
    members, change, read = READ[kind]

    def start(module, batch_idx):
        if batch_idx == 6:
            change(module, 0.5)

    def step(module, batch, loss):
        return loss * read(module)

    _, plain, _ = run(members, step, start=start)
    _, quick, _ = run(members, step, start=start, step="graphs")
    if kind != "a setting of torch's" or device == "cpu":
        close(plain, quick)


@pytest.mark.parametrize("device", DEVICES)
def test_what_the_epochs_end_or_a_validation_changes_counts_in_the_next_step(run, graphs, device, monkeypatch, net):
    def halve(module):
        module.factor = module.factor * 0.5

    monkeypatch.setattr(net, "on_train_epoch_end", halve, raising=False)
    results = [
        run(lambda d: {"factor": one(d)}, lambda m, b, loss: loss * m.factor, step=GraphSteps(g) if g else None)
        for g in (False, 2)
    ]
    close(results[0][1], results[1][1])


@pytest.mark.parametrize("device", ["cpu"])
def test_a_counter_that_no_step_reads_costs_no_capture(run, graphs, device):
    def end(module, outputs):
        module.tally = getattr(module, "tally", 0) + 1

    run(lambda d: {}, lambda m, b, loss: loss, end=end, step="graphs")
    assert graphs.captures == 1


# what a step leaves in attributes and a hook reads afterwards
WRITTEN = {
    "tensor": (lambda m, loss: setattr(m, "left", loss.detach() * 2), lambda m: m.left),
    "dict": (lambda m, loss: setattr(m, "left", {"a": loss.detach() * 2}), lambda m: m.left["a"]),
    "item": (lambda m, loss: m.kept.update(a=loss.detach() * 2), lambda m: m.kept["a"]),
    "list begun anew": (
        lambda m, loss: (setattr(m, "left", []), m.left.append(loss.detach() * 2)),
        lambda m: m.left[0],
    ),
    "of a layer": (lambda m, loss: setattr(m.layers[0], "aux", loss.detach() * 2), lambda m: m.layers[0].aux),
}


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("steps", [1, 2])
@pytest.mark.parametrize("kind", WRITTEN)
def test_what_a_step_leaves_in_an_attribute_is_found_there(kind, steps, run, graphs, device):
    write, read = WRITTEN[kind]

    def step(module, batch, loss):
        write(module, loss)
        return loss

    def end(module, outputs):
        module.seen.append(read(module))

    hooks = {"end": end} if steps == 1 else {}
    seen, plain, _ = run(lambda d: {"kept": {}}, step, **hooks)
    again, quick, _ = run(lambda d: {"kept": {}}, step, **hooks, step=GraphSteps(steps))
    close(plain, quick)
    close([float(value) for value in seen], [float(value) for value in again])


def add_one(module, loss):
    module.count += 1
    return loss * module.count


def smooth(module, loss):
    module.smooth = 0.9 * module.smooth + loss.detach()
    return loss * module.smooth


def smooth_in_place(module, loss):
    module.smooth.mul_(0.9).add_(loss.detach())
    return loss * module.smooth


def keep_all(module, loss):
    module.kept.append(loss.detach())
    return loss


def smooth_in_a_dict(module, loss):
    module.box.update(smooth=0.9 * module.box["smooth"] + loss.detach())
    return loss * module.box["smooth"]


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize(
    "use, error",
    [
        (add_one, r"the step changes count, a value in Python.*LT316"),
        (smooth, r"the step puts smooth into new memory.*LT347"),
        (smooth_in_a_dict, r"the step puts box.smooth into new memory.*LT347"),
        (smooth_in_place, None),
        (keep_all, r"the step puts .*items of a container into new memory.*LT347"),
    ],
)
def test_what_a_step_keeps_for_the_next_one_is_in_place_or_refused(use, error, run, graphs, device):
    def members(where):
        return {"count": 0, "smooth": one(where), "kept": [], "box": {"smooth": one(where)}}

    def step(module, batch, loss):
        return use(module, loss)

    _, plain, _ = run(members, step)
    with pytest.raises(ConfigError, match=error) if error else nullcontext():
        _, quick, _ = run(members, step, step="graphs")
        close(plain, quick)


@pytest.mark.parametrize("device", DEVICES)
@pytest.mark.parametrize("steps", [1, 4])
def test_a_logged_buffer_or_parameter_is_what_it_was_when_it_was_logged(steps, run, graphs, device):
    def members(where):
        return {"smooth": one(where)}

    def step(module, batch, loss):
        module.log("before", module.smooth, on_step=False, on_epoch=True)
        module.log("weight", module.layers[3].bias[0], on_step=False, on_epoch=True)
        module.smooth.mul_(0.9)
        return loss

    plain, quick = (run(members, step, step=GraphSteps(g) if g else None)[2].callback_metrics for g in (False, steps))
    assert {k: float(v) for k, v in plain.items()} == pytest.approx({k: float(v) for k, v in quick.items()}, rel=1e-5)


@pytest.mark.parametrize("device", DEVICES)
def test_an_epochs_mean_weighs_waiting_steps_by_their_own_batches(run, graphs, device):
    """The last batch is smaller, and ends a group that is not full."""

    def step(module, batch, loss):
        module.log("loss", loss, on_step=False, on_epoch=True)
        return loss

    plain, quick = (
        run(lambda d: {}, step, samples=90, step=GraphSteps(g) if g else None)[2].callback_metrics for g in (False, 4)
    )
    assert float(plain["loss"]) == pytest.approx(float(quick["loss"]), rel=1e-5)
