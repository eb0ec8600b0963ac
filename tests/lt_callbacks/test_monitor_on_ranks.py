"""A monitor that is missing on one rank: the message says which, and what may be the cause."""

from types import SimpleNamespace

import pytest

from lt_callbacks.monitored import Monitor


@pytest.mark.parametrize("rank", [0, 1])
def test_a_rank_that_lacks_the_metric_is_named_with_the_flag(rank):
    trainer = SimpleNamespace(global_rank=rank, num_val_batches=[], lightning_module=SimpleNamespace())
    error = str(Monitor("EarlyStopping", "nothing stops").lacking(trainer, "v", ["train_loss"]))
    assert "no metric of this name was logged" in error
    assert ("on rank 1" in error and "rank_zero_only=True" in error) is (rank == 1)
