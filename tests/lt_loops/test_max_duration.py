"""``Trainer(max_time=...)``: one argument says how long a fit is, in any unit."""

import pytest
import torch
from torch.utils.data import IterableDataset

from lt_core.errors import ConfigError


@pytest.mark.parametrize(
    ("written", "steps", "reason"),
    [
        ("7 steps", 7, "max_steps=7 reached"),
        ("2 epochs", 10, "max_epochs=2 reached"),
        ("1 sample", 1, "max_time=1 samples reached"),
        ("8 samples", 2, "max_time=8 samples reached"),
        ("26 samples", 8, "max_time=26 samples reached"),  # an epoch has 5 batches, 17 samples
        ("34 samples", 10, "max_time=34 samples reached"),
        ("1e2 samples", 29, "max_time=100 samples reached"),
    ],
)
def test_a_fit_ends_with_the_step_that_reaches_its_duration(written, steps, reason, trainer, net, loader):
    if "sample" in written:
        pytest.importorskip("lt_data", reason="counts samples")
    fit = trainer(max_epochs=None, max_time=written)
    fit.fit(net(), loader(17))
    assert (fit.global_step, fit.stop_reason) == (steps, reason)


def test_a_number_of_samples_waits_for_the_step_of_its_window(trainer, net, loader):
    pytest.importorskip("lt_data", reason="counts samples")
    fit = trainer(max_epochs=None, max_time="20 samples", accumulate_grad_batches=2)
    fit.fit(net(), loader(40))
    assert (fit.global_step, fit.global_samples) == (3, 24)


def test_the_loop_looks_up_only_where_the_samples_can_be_reached(trainer, net, loader, monkeypatch):
    pytest.importorskip("lt_data", reason="counts samples")
    from lt_loops import fit as loop

    looks, after_batch = [], loop.after_batch
    monkeypatch.setattr(
        loop, "after_batch", lambda run, **how: looks.append(run.position.batch) or after_batch(run, **how)
    )
    trainer(max_epochs=None, max_time="200 samples").fit(net(), loader(400))
    assert looks == [0, 1, 50]


@pytest.mark.parametrize("cut", ["20 samples", "28 samples"])
def test_a_resumed_fit_ends_at_the_same_sample(cut, trainer, net, loader, tmp_path):
    pytest.importorskip("lt_data", reason="counts samples")
    torch.manual_seed(1)
    first = trainer(max_epochs=None, max_time=cut)
    first.fit(net(), loader(17))
    first.save_checkpoint(tmp_path / "a.ckpt")
    second = trainer(max_epochs=None, max_time="40 samples")
    second.fit(net(), loader(17), ckpt_path=tmp_path / "a.ckpt")
    assert (second.global_step, second.global_samples) == (12, 42)


def test_data_that_does_not_count_its_samples_is_an_error_before_the_first_step(trainer, net):
    pytest.importorskip("lt_data", reason="counts samples")

    class Stream(IterableDataset):
        def __iter__(self):
            yield torch.randn(8), torch.tensor(1)

    fit = trainer(max_epochs=None, max_time="9 samples")
    with pytest.raises(ConfigError, match="does not say how many samples.*LT356"):
        fit.fit(net(), torch.utils.data.DataLoader(Stream(), batch_size=4))
    assert fit.global_step == 0
