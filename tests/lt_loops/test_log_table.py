"""Every hook in which ``self.log`` works, with every combination of on_step, on_epoch, prog_bar and logger.

Which hooks, with which defaults, and what is refused is Lightning 2.6's table; each hook logs all combinations in one
run, under a name for each, and all that callbacks, bar and loggers then know is compared.
"""

import itertools

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

from lt_core import Callback, LightningModule, LogError, Logger

COMBINATIONS = list(itertools.product([None, True, False], [None, True, False], [True, False], [True, False]))
TRAIN_BATCH = [
    "training_step",
    "on_train_batch_start",
    "on_train_batch_end",
    "on_before_zero_grad",
    "optimizer_zero_grad",
    "on_before_backward",
    "backward",
    "on_after_backward",
    "on_before_optimizer_step",
    "configure_gradient_clipping",
    "optimizer_step",
]
EVAL_BATCH = [
    f"{hook}{stage}{end}"
    for stage in ("validation", "test")
    for hook, end in (("", "_step"), ("on_", "_batch_start"), ("on_", "_batch_end"))
]
WHOLE = [
    f"on_{stage}_{when}" for stage in ("train", "validation", "test") for when in ("start", "epoch_start", "epoch_end")
]
HOOKS = TRAIN_BATCH + EVAL_BATCH + WHOLE
CASES = [(hook, False) for hook in HOOKS] + [(hook, True) for hook in HOOKS if hasattr(Callback, hook)]
MEAN = (4 * 1 + 4 * 2 + 2 * 3) / 10
"""The mean of 1, 2, 3 logged in batches of 4, 4 and 2."""


class Rows(Logger):
    """Keeps what it is given."""

    def __init__(self):
        self.rows = []

    def log_metrics(self, metrics, step=None):
        self.rows += [(name, step, float(value)) for name, value in metrics.items() if name != "epoch"]


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(1, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum() * 0.0

    def validation_step(self, batch, batch_idx, dataloader_idx=0):
        pass

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.0)


def logs_in(hook, base, errors):
    """Return a class whose ``hook`` logs the number of its call, once for each combination."""
    calls = itertools.count(1)

    def call(self, *args, **kwargs):
        result = getattr(base, hook)(self, *args, **kwargs)
        value = float(next(calls))
        for number, (on_step, on_epoch, prog_bar, logger) in enumerate(COMBINATIONS):
            settings = {"on_step": on_step, "on_epoch": on_epoch, "prog_bar": prog_bar, "logger": logger}
            try:
                self.log(f"m{number}", value, **settings)
            except LogError as error:
                errors[number] = str(error)
        return result

    return type("Logs", (base,), {hook: call})


def run(hook, trainer, *, by_callback):
    """Run the stage of ``hook``; return the Trainer, the rows and the errors."""
    errors, rows = {}, Rows()
    data = DataLoader(torch.ones(10, 1), batch_size=4)
    module = Net() if by_callback else logs_in(hook, Net, errors)()
    callbacks = [logs_in(hook, Callback, errors)()] if by_callback else []
    made = trainer(logger=rows, callbacks=callbacks, log_every_n_steps=1, num_sanity_val_steps=0, gradient_clip_val=1.0)
    if "test" in hook:
        made.test(module, data, verbose=False)
    else:
        made.fit(module, data, data)
    return made, rows.rows, errors


def expected(hook):
    """Return what Lightning's rules give: callback, logged and bar metrics, rows without their steps, and refusals."""
    callback, logged, bar, rows, refused = {}, {}, {}, [], set()
    training = hook in TRAIN_BATCH
    for number, (on_step, on_epoch, prog_bar, logger) in enumerate(COMBINATIONS):
        name = f"m{number}"
        if hook in WHOLE and (on_step is True or on_epoch is False):
            refused.add(number)
            continue
        steps = training if on_step is None else on_step
        epochs = (not training) if on_epoch is None else on_epoch
        mean = 1.0 if hook in WHOLE else MEAN
        by_step = {f"{name}_step" if epochs else name: 3.0} if steps else {}
        by_epoch = {f"{name}_epoch" if steps else name: mean} if epochs else {}
        callback |= (by_step if training else {}) | by_epoch
        if epochs or (steps and training):
            callback[name] = mean if epochs else 3.0
        logged |= (by_step | by_epoch) if logger else {}
        bar |= (by_step | by_epoch) if prog_bar else {}
        if logger:
            rows += [(key, value) for key in by_step for value in (1.0, 2.0, 3.0)]
            rows += list(by_epoch.items())
    return callback, logged, bar, rows, refused


@pytest.mark.filterwarnings(r"ignore:(?s).*LT571")  # that the combination False, False is logged nowhere
@pytest.mark.parametrize(("hook", "by_callback"), CASES)
def test_every_combination_shows_where_lightning_shows_it(hook, by_callback, trainer):
    made, found, errors = run(hook, trainer, by_callback=by_callback)
    callback, logged, bar, rows, refused = expected(hook)
    assert len(callback) >= 6  # the table is not empty
    assert {name: value.item() for name, value in made.callback_metrics.items()} == pytest.approx(callback)
    assert {name: value.item() for name, value in made.logged_metrics.items()} == pytest.approx(logged)
    assert made.progress_bar_metrics == pytest.approx(bar)
    got, wanted = sorted((name, value) for name, _, value in found), sorted(rows)
    assert [name for name, _ in got] == [name for name, _ in wanted]
    assert [value for _, value in got] == pytest.approx([value for _, value in wanted])
    assert set(errors) == refused
    for number, message in errors.items():
        assert f"'m{number}'" in message
        assert "[LT503]" in message
