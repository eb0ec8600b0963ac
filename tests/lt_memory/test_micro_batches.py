"""``accumulate_grad_batches="auto"``: a batch for which memory is short goes through in pieces; same weights."""

import gc
import weakref
from collections import UserDict, namedtuple
from dataclasses import dataclass

import pytest
import torch
from tests.lt_loops.conftest import Net, make_loader, make_trainer, weights
from torch import nn
from torch.nn.functional import cross_entropy
from torch.utils.data import DataLoader

from lt_core import Callback, LightningModule
from lt_core.errors import ConfigError, HookError

OUT_OF_MEMORY = [
    "HIP out of memory. Tried to allocate 20.00 MiB",
    "[enforce fail at alloc_cpu.cpp:128] DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes.",
    "[enforce fail at alloc_cpu.cpp:75] DefaultCPUAllocator: not enough memory: you tried to allocate 8 bytes.",
    "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
    "cuDNN error: CUDNN_STATUS_NOT_SUPPORTED. This error may appear if you passed in a non-contiguous input.",
]


class Short(Net):
    """Has memory for ``room`` samples; ``where`` says in which part of the step it ends."""

    room, where, seen = 4, "forward", ()

    def training_step(self, batch, batch_idx):
        x, y = batch
        self.seen = (*self.seen, (batch_idx, len(x)))
        if self.where == "forward" and len(x) > self.room:
            torch.rand(3)
            raise torch.OutOfMemoryError("CUDA out of memory.")
        return self.loss_of(x, y)

    def loss_of(self, x, y):
        hidden = self.layers(x)
        loss = cross_entropy(hidden, y)
        if self.where == "backward" and len(x) > self.room:
            hidden.register_hook(self.fail)
        self.log("loss", loss, on_step=True, on_epoch=True)
        return loss

    def fail(self, gradient):
        raise torch.OutOfMemoryError("CUDA out of memory.")


def by_hand(net, loader, size):
    """Train by the hand-written loop, each batch in pieces of ``size``."""
    optimizer = net.configure_optimizers()
    for x, y in loader:
        optimizer.zero_grad()
        for part, truth in zip(x.split(size), y.split(size), strict=True):
            (cross_entropy(net.layers(part), truth) * (len(part) / len(x))).backward()
        optimizer.step()


def pair(**members):
    torch.manual_seed(1)
    ours = Short(**members)
    theirs = Short()
    theirs.load_state_dict(ours.state_dict())
    return ours, theirs


@pytest.mark.parametrize("where", ["forward", "backward"])
@pytest.mark.parametrize(("room", "size"), [(10, 10), (5, 5), (4, 2), (1, 1)])
def test_the_weights_are_those_of_the_split_made_by_hand(where, room, size):
    ours, theirs = pair(room=room, where=where)
    torch.manual_seed(2)
    make_trainer(accumulate_grad_batches="auto").fit(ours, make_loader(36, batch_size=10))
    torch.manual_seed(2)
    by_hand(theirs, make_loader(36, batch_size=10), size)
    assert all(map(torch.equal, weights(ours), weights(theirs)))


@pytest.mark.parametrize("said", OUT_OF_MEMORY)
def test_the_words_of_every_library_that_has_no_memory_left_cut_the_batch(said):
    class Worded(Short):
        def training_step(self, batch, batch_idx):
            if len(batch[0]) > 4:
                raise RuntimeError(said)
            return super().training_step(batch, batch_idx)

    module = Worded()
    make_trainer(accumulate_grad_batches="auto").fit(module, make_loader(8, batch_size=8))
    assert module.seen == ((0, 4), (0, 4))


def test_without_random_layers_they_are_those_of_the_whole_batch():
    ours, theirs = pair(room=2)
    ours.layers[2].p = theirs.layers[2].p = 0.0
    make_trainer(accumulate_grad_batches="auto").fit(ours, make_loader(36, batch_size=10, shuffle=False))
    by_hand(theirs, make_loader(36, batch_size=10, shuffle=False), 10)
    assert all(map(torch.allclose, weights(ours), weights(theirs)))


def test_the_size_is_searched_once_said_once_and_kept_in_the_checkpoint(tmp_path, capsys):
    net = Short(room=5)
    trainer = make_trainer(accumulate_grad_batches="auto", enable_progress_bar=None)
    trainer.fit(net, make_loader(40, batch_size=20))
    assert net.seen == ((0, 20), (0, 10), *[(0, 5)] * 4, *[(1, 5)] * 4)
    assert capsys.readouterr().out.count("micro-batches of 5") == 1
    trainer.save_checkpoint(tmp_path / "a.ckpt")
    net = Short(room=5)
    make_trainer(accumulate_grad_batches="auto", max_epochs=2).fit(
        net, make_loader(40, batch_size=20), ckpt_path=tmp_path / "a.ckpt"
    )
    assert net.seen == (*[(0, 5)] * 4, *[(1, 5)] * 4)


def test_hooks_run_once_a_batch_and_logged_values_are_those_of_the_batch():
    class Watch(Callback):
        def __init__(self):
            self.seen = []

        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            self.seen.append((batch_idx, len(batch[0]), outputs["loss"].item(), trainer.callback_metrics["loss_step"]))

    def fit(room):
        torch.manual_seed(1)
        net, watch = Short(room=room), Watch()
        net.layers[2].p = 0.0
        trainer = make_trainer(accumulate_grad_batches="auto", callbacks=[watch])
        trainer.fit(net, make_loader(35, batch_size=10, shuffle=False))
        return watch.seen, trainer.callback_metrics["loss_epoch"]

    (split, mean), (whole, expected) = fit(3), fit(10)
    assert [row[:2] for row in split] == [(0, 10), (1, 10), (2, 10), (3, 5)]
    torch.testing.assert_close(torch.tensor([row[2:] for row in split]), torch.tensor([row[2:] for row in whole]))
    torch.testing.assert_close(mean, expected)


def test_losses_with_a_weight_are_weighed_by_it():
    class Weighted(Net):
        room = 3

        def training_step(self, batch, batch_idx):
            x, y = batch
            if len(x) > self.room:
                raise torch.OutOfMemoryError("CUDA out of memory.")
            kept = y != 0
            loss = cross_entropy(self.layers(x)[kept], y[kept], reduction="sum") / kept.sum().clamp(min=1)
            return {"loss": loss, "loss_weight": kept.sum()}

    trained = []
    for room in (3, 10):
        torch.manual_seed(1)
        net = Weighted(room=room)
        net.layers[2].p = 0.0
        make_trainer(accumulate_grad_batches="auto").fit(net, make_loader(36, batch_size=10, shuffle=False))
        trained.append(weights(net))
    assert all(map(torch.allclose, *trained))


def test_nothing_of_a_failed_attempt_is_left():
    class Norm(Short):
        def loss_of(self, x, y):
            assert not any(kept() is not None for kept in self.kept)
            return super().loss_of(x, y)

        def training_step(self, batch, batch_idx):
            if len(batch[0]) > self.room:
                self.norm(batch[0])
                held = torch.ones(5)
                self.kept.append(weakref.ref(held))
            return super().training_step(batch, batch_idx)

    gc.disable()
    net = Norm(room=5, norm=nn.BatchNorm1d(8), kept=[])
    with pytest.warns(UserWarning, match="LT365"):
        make_trainer(accumulate_grad_batches="auto").fit(net, make_loader(20, batch_size=10))
    gc.enable()
    assert len(net.kept) == 1
    assert net.norm.num_batches_tracked == 0


def test_one_sample_for_which_memory_is_short_is_the_error_itself():
    with pytest.raises(torch.OutOfMemoryError, match="CUDA out of memory"):
        make_trainer(accumulate_grad_batches="auto").fit(Short(room=0), make_loader())


Pair = namedtuple("Pair", "x y")  # noqa: PYI024


@dataclass
class Both:
    x: torch.Tensor
    y: torch.Tensor
    name: str = "both"


@pytest.mark.parametrize(
    "form", [lambda x, y: {"x": x, "y": y, "n": 3}, lambda x, y: UserDict(x=x, y=y), Pair, Both, lambda x, y: [x, [y]]]
)
def test_batches_of_many_forms_are_cut(form):
    from lt_memory.micro_batches import _cut, rows_of

    batch = form(torch.arange(6), torch.arange(6) * 2)
    assert rows_of(batch) == 6
    piece = _cut(batch, 2, 4)
    assert type(piece) is type(batch)
    assert rows_of(piece) == 2


@pytest.mark.parametrize("batch", [{"x": torch.ones(3, 2), "mask": torch.ones(2)}, [object()], torch.tensor(1.0)])
def test_a_batch_that_cannot_be_cut_is_refused(batch):
    with pytest.raises(HookError, match="LT366"):
        make_trainer(accumulate_grad_batches="auto").fit(Short(), [batch])


class Keeps(Net):
    """Keeps gradients over batches."""

    def optimizer_zero_grad(self, epoch, batch_idx, optimizer):
        if batch_idx % 2 == 0:
            optimizer.zero_grad()


@pytest.mark.parametrize(
    ("net", "arguments", "why"),
    [
        (lambda: Net(automatic_optimization=False), {}, "steps the optimizers"),
        (lambda: Net(lambda module: torch.optim.LBFGS(module.parameters())), {}, "LBFGS calls training_step"),
        (Keeps, {}, "optimizer_zero_grad is your own"),
    ],
)
def test_what_cannot_be_tried_again_is_refused_before_the_first_batch(net, arguments, why):
    with pytest.raises(ConfigError, match=f"{why}.*LT363"):
        make_trainer(accumulate_grad_batches="auto", **arguments).fit(net(), make_loader())


def test_a_window_of_several_batches_is_refused():
    # each batch has a step of its own: the window was ignored in silence
    with pytest.raises(ConfigError, match="step='micro_batches'.*accumulate_grad_batches=4: each batch.*LT363"):
        make_trainer(accumulate_grad_batches=4, step="micro_batches").fit(Net(), make_loader())


def test_a_list_of_images_of_one_size_is_not_cut_along_their_channels():
    class Images(Short):
        def training_step(self, batch, batch_idx):
            raise torch.OutOfMemoryError("CUDA out of memory.")

    loader = DataLoader([torch.ones(3, 2, 2)] * 16, batch_size=8, collate_fn=list)
    with pytest.raises(HookError, match="share 3, where the loader's batch_size is 8.*LT366"):
        make_trainer(accumulate_grad_batches="auto").fit(Images(), loader)


class Cut(LightningModule):
    """Eight samples, 0 to 7, of which only ``room`` fit at once."""

    def __init__(self, room):
        super().__init__()
        self.layer, self.room, self.output = nn.Linear(1, 1), room, None
        self.register_buffer("center", torch.zeros(1))

    def training_step(self, batch, batch_idx):
        self.center = 0.5 * self.center + batch.mean(0)  # assigned, not changed in place
        if len(batch) > self.room:
            raise torch.OutOfMemoryError("CUDA out of memory.")
        high = int((batch >= 4).sum())
        self.log("high", 0.0 if high else 1.0, on_step=False, on_epoch=True, batch_size=high)
        output = {"loss": self.layer(batch).mean(), "first": batch[0]}
        return output | ({"rows": batch} if high else {"low": batch.sum()})

    def on_train_batch_end(self, outputs, batch, batch_idx):
        self.output = outputs

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


def test_buffers_that_are_assigned_weights_of_zero_and_keys_of_some_pieces_are_as_in_a_loop_over_the_pieces():
    data = torch.arange(8.0).reshape(8, 1)
    cut, whole = Cut(room=4), Cut(room=9)
    seen = {}
    for module, batch_size in ((cut, 8), (whole, 4)):
        fit = make_trainer(accumulate_grad_batches="auto")
        fit.fit(module, DataLoader(data, batch_size=batch_size))
        seen[module] = fit.callback_metrics["high"]
    assert cut.center.item() == whole.center.item() == 0.5 * 1.5 + 5.5
    assert seen[cut] == seen[whole] == 0.0
    assert set(cut.output) == {"loss", "first", "low", "rows"}
    assert (cut.output["low"], cut.output["rows"].tolist()) == (6.0, data[4:].tolist())
