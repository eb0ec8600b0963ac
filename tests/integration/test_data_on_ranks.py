"""Data on several ranks, by the Trainer on forked processes: the numbers of one process, and epochs that continue."""

import json
import signal
import time
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.nn.functional import mse_loss
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset, get_worker_info

from lt_callbacks import BasePredictionWriter
from lt_core import Callback, LightningModule, Logger, seed_everything
from lt_core.errors import LtWarning
from lt_data import LightningDataModule
from lt_loops import Trainer
from lt_strategies import DDP

pytestmark = pytest.mark.ddp
QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


def make_trainer(ranks, folder, **arguments):
    many = {"strategy": "ddp_fork", "devices": ranks} if ranks > 1 else {"devices": 1}
    return Trainer(**{"accelerator": "cpu", "max_epochs": 1, "default_root_dir": folder, **many, **QUIET, **arguments})


def table(total):
    generator = torch.Generator().manual_seed(total)
    x = torch.randn(total, 3, generator=generator)
    return TensorDataset(x, x.sum(1, keepdim=True), torch.arange(total))


class Line(LightningModule):
    """Linear regression that writes down which samples it sees."""

    def __init__(self, folder=None, word="seen"):
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(3, 1)
        self.folder, self.word = folder, word

    def training_step(self, batch, batch_idx):
        x, y, index = batch
        if self.folder is not None:
            with (Path(self.folder) / f"{self.word}-{self.global_rank}").open("a") as file:
                file.write(f"{self.current_epoch}: {' '.join(map(str, index.tolist()))}\n")
        return mse_loss(self.layer(x), y)

    def test_step(self, batch, batch_idx):
        x, y, index = batch
        self.log("mean", index.double().mean(), batch_size=len(index))
        self.log("total", index.double().sum(), reduce_fx="sum", batch_size=len(index))
        self.log("error", mse_loss(self.layer(x), y), batch_size=len(index))

    def predict_step(self, batch, batch_idx):
        return batch[2]

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)


class SaveAndStop(Callback):
    """Asks for a checkpoint in the middle of the epoch, and ends the run."""

    def __init__(self, path, batches):
        self.path, self.batches = path, batches

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        if batch_idx + 1 == self.batches:
            trainer.request_save(self.path)
            trainer.should_stop = True


def seen(folder, word):
    """Return what all ranks saw, ``(epoch, sample)``, in the order of rank and time."""
    lines = [line for path in sorted(folder.glob(f"{word}-*")) for line in path.read_text().splitlines()]
    return [(int(line.split(":")[0]), int(n)) for line in lines for n in line.split(":")[1].split()]


class Positions(BasePredictionWriter):
    """Writes down which samples each batch of predictions is of."""

    def __init__(self, folder):
        super().__init__("epoch")
        self.folder = folder

    def write_on_epoch_end(self, trainer, pl_module, predictions, batch_indices):
        (places,) = batch_indices or [[]]
        found = [[output.tolist(), indices] for output, indices in zip(predictions, places, strict=True)]
        (Path(self.folder) / f"positions-{trainer.global_rank}").write_text(json.dumps(found))


@pytest.mark.filterwarnings("ignore:The test loader is empty", "ignore:The prediction loader is empty")
@pytest.mark.parametrize("total", [13, 7, 1, 0])
def test_metrics_and_predictions_are_those_of_one_process(tmp_path, total):
    def evaluate(ranks):
        loader = DataLoader(table(total), batch_size=2)
        trainer = make_trainer(ranks, tmp_path, callbacks=[Positions(tmp_path)])
        [metrics] = trainer.test(Line(), loader, verbose=False)
        predictions = trainer.predict(Line(), loader)
        for rank in range(ranks):
            for samples, positions in json.loads((tmp_path / f"positions-{rank}").read_text()):
                assert positions == samples
        return metrics, predictions

    expected, predictions = evaluate(1)
    assert expected.get("total", 0) == sum(range(total))
    assert bool(expected) == bool(total)
    for ranks in (2, 3):
        metrics, outputs = evaluate(ranks)
        assert metrics == pytest.approx(expected, abs=1e-6)
        assert [output.tolist() for output in outputs] == [output.tolist() for output in predictions]


@pytest.mark.parametrize("total", [13, 7, 1])
def test_training_equals_one_process_on_the_joined_batches(tmp_path, total):
    def train(ranks, batch_size):
        model = Line()
        make_trainer(ranks, tmp_path, max_epochs=3).fit(model, DataLoader(table(total), batch_size=batch_size))
        return model.layer.weight.detach()

    for ranks in (2, 3):
        assert torch.allclose(train(ranks, 2), train(1, 2 * ranks), atol=1e-6)


class Pairs(Line):
    """Learns from two loaders at once."""

    def training_step(self, batch, batch_idx):
        (x, y, _), (other, goal, _) = batch["left"], batch["right"]
        return mse_loss(self.layer(x), y) + mse_loss(self.layer(other), 2 * goal)


@pytest.mark.parametrize("total", [13, 1])
def test_two_loaders_of_one_length_train_as_on_one_process(tmp_path, total):
    def train(ranks, batch_size):
        model = Pairs()
        loaders = {name: DataLoader(table(total), batch_size=batch_size) for name in ("left", "right")}
        make_trainer(ranks, tmp_path, max_epochs=2).fit(model, loaders)
        return model.layer.weight.detach()

    for ranks in (2, 3):
        assert torch.allclose(train(ranks, 2), train(1, 2 * ranks), atol=1e-6)


def test_a_list_of_loaders_to_predict_on_comes_back_in_order_on_ranks(tmp_path):
    loaders = [DataLoader(table(total), batch_size=2) for total in (7, 3)]
    outputs = make_trainer(2, tmp_path).predict(Indexed(), loaders)
    assert [[n for batch in part for n in batch.tolist()] for part in outputs] == [list(range(7)), list(range(3))]


class Indexed(Line):
    def predict_step(self, batch, batch_idx, dataloader_idx=0):
        return batch[2]


@pytest.mark.filterwarnings("ignore:.*LT529")
def test_an_epoch_saved_on_two_ranks_continues_on_one_and_three(tmp_path):
    def loader():
        return DataLoader(table(14), batch_size=2, shuffle=True)

    path = tmp_path / "middle.ckpt"
    first = make_trainer(2, tmp_path, callbacks=[SaveAndStop(path, 2)], max_epochs=2)
    first.fit(Line(tmp_path, "begun"), loader())
    begun = seen(tmp_path, "begun")
    assert len(begun) == 8
    for ranks in (1, 2, 3):
        make_trainer(ranks, tmp_path, max_epochs=2).fit(Line(tmp_path, f"on{ranks}"), loader(), ckpt_path=path)
        rest = seen(tmp_path, f"on{ranks}")
        assert sorted(n for epoch, n in begun + rest if epoch == 0) == list(range(14))
        assert {n for epoch, n in rest if epoch == 1} == set(range(14)), "with a stand-in where 2 are left for 3 ranks"


@pytest.mark.parametrize(
    ("ranks", "batch_size", "arguments", "told"),
    [
        (1, 2, {}, "on 2 ranks and goes on with 1: a step is of 2 samples, and was of 4"),
        (3, 2, {}, "on 2 ranks and goes on with 3: a step is of 6 samples, and was of 4"),
        (1, 2, {"accumulate_grad_batches": 4}, "a step is of 8 samples, and was of 4"),
        (2, 2, {}, ""),
        (1, 4, {}, ""),
        (1, 2, {"accumulate_grad_batches": 2}, ""),
        (1, 2, {"global_batch_size": 4}, ""),
        (2, 3, {"accumulate_grad_batches": 2}, ""),  # the user's own change
    ],
)
def test_a_resume_on_other_ranks_says_once_that_a_step_is_of_other_samples(
    ranks, batch_size, arguments, told, tmp_path, monkeypatch
):
    path, said = tmp_path / "end.ckpt", tmp_path / "said.txt"

    def note(message, *where):
        with said.open("a") as file:  # on any rank
            file.write(f"{message}\n")

    def fit(ranks, batch_size, **arguments):
        start = arguments.pop("ckpt_path", None)
        data = DataLoader(table(24), batch_size=batch_size)
        make_trainer(ranks, tmp_path, **arguments).fit(Line(), data, ckpt_path=start)

    fit(2, 2, callbacks=[SaveAndStop(path, 2)])
    monkeypatch.setattr(warnings, "showwarning", note)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        fit(ranks, batch_size, max_epochs=2, ckpt_path=path, **arguments)
    texts = [line for line in said.read_text().splitlines() if "LT529" in line] if said.exists() else []
    assert len(texts) == bool(told)
    assert all(told in text and "Trainer(global_batch_size=4)" in text for text in texts)


def test_a_run_ends_the_same_on_any_number_of_ranks_where_the_global_batch_is_kept(tmp_path):
    path = tmp_path / "middle.ckpt"

    def fit(ranks, batch_size, start=None, **arguments):
        seed_everything(1, verbose=False)
        line, trainer = Line(), make_trainer(ranks, tmp_path, max_epochs=2, global_batch_size=12, **arguments)
        trainer.fit(line, DataLoader(table(36), batch_size=batch_size, shuffle=True), ckpt_path=start)
        return line.layer.weight.detach(), trainer.global_step

    def ends_as_expected(*how):
        weight, steps = fit(*how)
        assert steps == 6
        torch.testing.assert_close(weight, expected, rtol=1e-6, atol=1e-6)

    expected, _ = fit(2, 3)
    fit(2, 3, callbacks=[SaveAndStop(path, 3)])  # in the middle of the second step
    for ranks, batch_size in ((1, 3), (2, 3), (3, 2)):
        ends_as_expected(ranks, batch_size, path)

    ends_as_expected(1, 3)
    alone = tmp_path / "alone.ckpt"
    fit(1, 3, callbacks=[SaveAndStop(alone, 6)])
    for ranks, batch_size in ((2, 3), (3, 2)):
        ends_as_expected(ranks, batch_size, alone)

    back = tmp_path / "back.ckpt"  # one of two ranks is lost, and comes back, in the same epoch
    fit(1, 3, path, callbacks=[SaveAndStop(back, 8)])
    ends_as_expected(2, 3, back)
    odd = tmp_path / "odd.ckpt"
    fit(1, 3, path, callbacks=[SaveAndStop(odd, 7)])
    with pytest.warns(LtWarning, match=r"of a step of 4 batches, of which 2 make one now: .*\[LT765\]"):
        fit(1, 6, odd)


class OwnPart(IterableDataset):
    """A stream that reads its rank's part by itself; the parts differ in length, and nobody knows it beforehand."""

    shards_itself = True

    def __init__(self, totals):
        self.totals = totals

    def part(self, rank):
        return [row for number, row in enumerate(zip(*table(40).tensors, strict=True)) if number % 4 == rank][
            : self.totals[rank]
        ]

    def __iter__(self):
        yield from self.part(torch.distributed.get_rank())


def joined_by_hand(parts, epochs, per_step):
    """Train on what all ranks read in each step; a batch of ``per_step`` samples of each."""
    model = Line()
    optimizer = model.configure_optimizers()
    steps = max(-(-len(part) // per_step) for part in parts)
    for step in list(range(steps)) * epochs:
        rows = [row for part in parts for row in part[step * per_step : (step + 1) * per_step]]
        x, y = (torch.stack([row[i] for row in rows]) for i in (0, 1))
        optimizer.zero_grad()
        mse_loss(model.layer(x), y).backward()
        optimizer.step()
    return model.layer.weight.detach()


@pytest.mark.filterwarnings("ignore:To continue in the middle of the epoch")
@pytest.mark.parametrize("totals", [[7, 3], [0, 3, 5]])
def test_streams_that_shard_themselves_may_end_at_different_batches(tmp_path, totals):
    ranks, data = len(totals), OwnPart(totals)

    def fit(word, ckpt_path=None, **arguments):
        model = Line(tmp_path, word)
        trainer = make_trainer(ranks, tmp_path, max_epochs=2, **arguments)
        trainer.fit(model, DataLoader(data, batch_size=2), ckpt_path=ckpt_path)
        return model.layer.weight.detach()

    whole = fit("whole")
    assert torch.allclose(whole, joined_by_hand([data.part(rank) for rank in range(ranks)], 2, 2), atol=1e-6)
    path = tmp_path / "middle.ckpt"  # all but the longest stream have ended there
    fit("begun", callbacks=[SaveAndStop(path, max(-(-total // 2) for total in totals) - 1)])
    assert torch.equal(fit("rest", path), whole)


class Noisy(Dataset):
    def __len__(self):
        return 24

    def __getitem__(self, index):
        x = torch.rand(3)
        return x, x.sum(0, keepdim=True), index


@pytest.mark.parametrize("workers", [0, 2])
def test_two_ranks_resume_exactly(tmp_path, workers):
    def fit(word, **arguments):
        model, path = Line(tmp_path, word), arguments.pop("ckpt_path", None)
        loader = DataLoader(Noisy(), batch_size=3, shuffle=True, num_workers=workers)
        torch.manual_seed(5)
        make_trainer(2, tmp_path, max_epochs=2, **arguments).fit(model, loader, ckpt_path=path)
        return model.layer.weight.detach()

    path = tmp_path / "middle.ckpt"
    whole = fit("whole")
    fit("begun", callbacks=[SaveAndStop(path, 2)])
    assert torch.equal(fit("rest", ckpt_path=path), whole)
    for rank in (0, 1):
        parts = [(tmp_path / f"{word}-{rank}").read_text() for word in ("begun", "rest")]
        assert "".join(parts) == (tmp_path / f"whole-{rank}").read_text()


class OddShards(IterableDataset):
    """Is split by its workers; its shards do not divide over two ranks."""

    num_shards = 5

    def shard(self, num_shards, index):
        raise AssertionError("ranks would get different numbers of samples")

    def __iter__(self):
        worker = get_worker_info()
        yield from list(zip(*table(23).tensors, strict=True))[worker.id :: worker.num_workers]


@pytest.mark.filterwarnings(
    "ignore:To continue in the middle of the epoch", "ignore:OddShards has num_shards=5, no multiple of 2 r"
)
def test_a_stream_that_ranks_share_is_read_by_several_workers(tmp_path):
    def fit(word, ckpt_path=None, **arguments):
        model, loader = Line(tmp_path, word), DataLoader(OddShards(), batch_size=2, num_workers=2)
        make_trainer(2, tmp_path, max_epochs=2, **arguments).fit(model, loader, ckpt_path=ckpt_path)
        return model.layer.weight.detach(), loader

    whole, loader = fit("whole")
    every = [(epoch, sample) for epoch in range(2) for sample in range(23)]
    assert sorted(seen(tmp_path, "whole")) == every
    path = tmp_path / "middle.ckpt"
    fit("begun", callbacks=[SaveAndStop(path, 3)])
    assert torch.equal(fit("rest", path)[0], whole)
    assert sorted(seen(tmp_path, "begun") + seen(tmp_path, "rest")) == every
    make_trainer(1, tmp_path, max_epochs=2).fit(Line(tmp_path, "alone"), loader, ckpt_path=path)
    assert sorted(seen(tmp_path, "begun") + seen(tmp_path, "alone")) == every
    [tested] = make_trainer(2, tmp_path).test(Line(), loader, verbose=False)
    assert tested["total"] == sum(range(23))


class FailsToPrepare(LightningDataModule):
    def prepare_data(self):
        raise ValueError("the server is away")

    def train_dataloader(self):
        return DataLoader(table(4))


def test_an_error_in_prepare_data_ends_the_job(tmp_path):
    with pytest.raises(ValueError, match="the server is away"):
        make_trainer(2, tmp_path).fit(Line(), datamodule=FailsToPrepare())


class Weighted(Line):
    """Gives each sample a weight of its own."""

    def training_step(self, batch, batch_idx):
        x, y, index = batch
        weights = index.float() + 1
        loss = ((self.layer(x) - y) ** 2).mul(weights.view(-1, 1)).sum() / weights.sum()
        return {"loss": loss, "loss_weight": weights.sum().item()}


@pytest.mark.parametrize("kind", [Line, Weighted])
def test_the_gradients_of_half_a_window_on_two_ranks_go_on_on_one_and_three(tmp_path, kind):
    path = tmp_path / "window.ckpt"

    def fit(ranks, start=None, **arguments):
        seed_everything(1, verbose=False)
        line, batch_size = kind(), 6 // ranks
        trainer = make_trainer(ranks, tmp_path, max_epochs=1, accumulate_grad_batches=3, **arguments)
        trainer.fit(line, DataLoader(table(36), batch_size=batch_size), ckpt_path=start)
        return line.layer.weight.detach()

    expected = fit(2)
    fit(2, callbacks=[SaveAndStop(path, 2)])
    for ranks in (1, 2, 3):
        assert torch.allclose(fit(ranks, path), expected, atol=1e-6), ranks


class Signalled(Line):
    """Talks to the other ranks in each batch; rank 1 gets a signal in the third one."""

    def note(self, batch, batch_idx):
        time.sleep(0.02)
        self.all_gather(batch[0])
        if (self.global_rank, batch_idx) == (1, 2):
            signal.raise_signal(signal.SIGTERM)
        (Path(self.folder) / f"batches-{self.global_rank}").write_text(str(batch_idx))

    validation_step = test_step = predict_step = note


@pytest.mark.parametrize("stage", ["validate", "test", "predict"])
def test_ranks_leave_an_evaluation_after_the_same_batch(stage, tmp_path):
    trainer = make_trainer(2, tmp_path)
    trainer.on_signal = "return"
    getattr(trainer, stage)(Signalled(tmp_path), DataLoader(table(2000), batch_size=1))
    first, second = (int((tmp_path / f"batches-{rank}").read_text()) for rank in range(2))
    assert first == second < 999


class Late(Line):
    """Rank 1 gets a signal when there are not batches enough left for the ranks to agree on one."""

    def __init__(self, folder, hook):
        super().__init__(folder)
        self.hook = hook

    def training_step(self, batch, batch_idx):
        if (self.hook, self.global_rank, batch_idx) == ("training_step", 1, 7):
            signal.raise_signal(signal.SIGTERM)
        return super().training_step(batch, batch_idx)

    def on_train_end(self):
        if (self.hook, self.global_rank) == ("on_train_end", 1):
            signal.raise_signal(signal.SIGTERM)

    def on_interrupt(self):
        (Path(self.folder) / f"interrupted-{self.global_rank}").touch()


@pytest.mark.parametrize("hook", ["training_step", "on_train_end"])
def test_a_signal_too_late_for_a_batch_to_stop_at_ends_the_run_as_stopped_by_it_on_all_ranks(hook, tmp_path):
    trainer = make_trainer(2, tmp_path)
    trainer.on_signal = "return"
    trainer.fit(Late(tmp_path, hook), DataLoader(table(16), batch_size=1))
    assert trainer.interrupted
    assert trainer.stop_reason == "signal SIGTERM"
    assert [(tmp_path / f"interrupted-{rank}").exists() for rank in range(2)] == [True, True]


class Leaves(DDP):
    """Notes that a rank is through with the job."""

    def __init__(self, folder):
        super().__init__(launcher="fork")
        self.folder = Path(folder)

    def close(self, error=None):
        super().close(error)
        (self.folder / f"left-{self.rank}").touch()


class SlowToClose(Logger):
    def __init__(self, folder):
        super().__init__()
        self.folder = Path(folder)

    def finalize(self, status):
        until = time.monotonic() + 1.5
        while not (self.folder / "left-1").exists() and time.monotonic() < until:
            time.sleep(0.01)
        (self.folder / "alone").write_text(str((self.folder / "left-1").exists()))


def test_after_a_signal_no_rank_leaves_while_another_closes_its_loggers(tmp_path):
    """A scheduler may end the job when the first rank exits with a signal's status."""
    arguments = {"strategy": Leaves(tmp_path), "logger": SlowToClose(tmp_path)}
    trainer = make_trainer(2, tmp_path, **arguments)
    trainer.on_signal = "return"
    trainer.fit(Late(tmp_path, "training_step"), DataLoader(table(16), batch_size=1))
    assert trainer.interrupted
    assert (tmp_path / "alone").read_text() == "False"


def test_samples_of_an_epoch_that_a_limit_cut_count_where_the_ranks_have_ended(tmp_path):
    trainer = make_trainer(2, tmp_path, max_steps=3)
    result = trainer.fit(Line(), DataLoader(table(40), 2))
    assert (trainer.global_samples, result.samples) == (12, 12)
