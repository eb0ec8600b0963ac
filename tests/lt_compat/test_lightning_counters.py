"""Where a fit goes on that resumes from a file of Lightning's."""

import pytest
import torch


def lightning_file(model, path, *, epochs, batches, is_last_batch, step):
    """Write what Lightning 2.x writes, as far as counters go."""
    optimizer = model.configure_optimizers()
    loops = {
        "epoch_progress": {"current": {"ready": epochs[0], "started": epochs[0], "completed": epochs[1]}},
        "epoch_loop.batch_progress": {"current": {"completed": batches}, "is_last_batch": is_last_batch},
    }
    tree = {
        "epoch": epochs[0] - 1,
        "global_step": step,
        "pytorch-lightning_version": "2.6.6",
        "state_dict": model.state_dict(),
        "optimizer_states": [optimizer.state_dict()],
        "lr_schedulers": [],
        "loops": {"fit_loop": loops},
    }
    torch.save(tree, path)


@pytest.mark.parametrize(
    ("epochs", "batches", "is_last_batch", "left"),
    [
        ((2, 1), 25, True, 2),  # ModelCheckpoint at an epoch's end: the epoch is done, and not counted yet
        ((2, 2), 25, True, 2),  # after the end of a fit of two epochs
        ((2, 1), 5, False, 2 + 20 / 25),  # in the middle of an epoch
    ],
)
def test_a_fit_goes_on_where_lightning_stopped(epochs, batches, is_last_batch, left, trainer, net, loader, tmp_path):
    model = net()
    step = 25 + batches
    lightning_file(model, tmp_path / "l.ckpt", epochs=epochs, batches=batches, is_last_batch=is_last_batch, step=step)
    fit = trainer(max_epochs=4)
    fit.fit(model, loader(), ckpt_path=tmp_path / "l.ckpt")
    assert fit.global_step - step == left * 25


@pytest.mark.parametrize(("windows", "left"), [({0: 2, 1: 4}, 6 + 7), ({0: 1, 2: 4}, 20 + 7)])
def test_a_window_that_changes_with_the_epoch_begins_at_its_first_batch(windows, left, trainer, net, loader, tmp_path):
    model = net()
    lightning_file(model, tmp_path / "l.ckpt", epochs=(2, 1), batches=5, is_last_batch=False, step=0)
    fit = trainer(max_epochs=3, accumulate_grad_batches=windows)
    fit.fit(model, loader(), ckpt_path=tmp_path / "l.ckpt")
    assert fit.global_step == left  # what is left of 25 batches from the fourth or fifth on, and a whole epoch
