"""Mistakes with callbacks, which a run of both packages finds. A part of the table behind docs/mistakes.md."""

import importlib.util
import warnings
from pathlib import Path

import pytest
import torch
from torch.utils.data import DataLoader, TensorDataset

import lt_averaging
import lt_callbacks
import lt_tuning
from lt_core import ConfigTypeError, LogError, LtError, LtWarning

_spec = importlib.util.spec_from_file_location(
    "mistakes_in_runs", Path(__file__).parents[1] / "lt_loops" / "test_mistakes_in_runs.py"
)
_runs = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_runs)
row = _runs.row

MISTAKES = {
    "Callbacks": [
        row(
            "EMAWeightAveraging(0.999)",
            "device=0.999",
            way_out="EMAWeightAveraging(decay=0.999)",
            kind=ConfigTypeError,
        ),
        row("WeightAveraging(device='cdua')", "device='cdua'", way_out="Did you mean 'cuda'?"),
        row(
            "fit(net, loader, accumulate_grad_batches=2, callbacks=GradientAccumulationScheduler({0: 2}))",
            "accumulate_grad_batches=2",
            "GradientAccumulationScheduler({0: 2})",
            way_out="Give it in one place only",
        ),
        row(
            "fit(net, loader, loader, callbacks=EarlyStopping('val_los'), max_epochs=0)",
            "EarlyStopping monitors 'val_los'",
            way_out="Did you mean 'val_loss'?",
            kind=LtWarning,
        ),
        row(
            "fit(net, loader, loader, callbacks=EarlyStopping('val_los'), num_sanity_val_steps=0)",
            "EarlyStopping(monitor='val_los')",
            way_out="Did you mean 'val_loss'?",
            kind=LogError,
        ),
        row(
            "fit(net, loader, loader, callbacks=EarlyStopping('val_loss'), limit_val_batches=0)",
            "monitor='val_loss'",
            way_out="validation is off",
            kind=LtWarning,
        ),
        row(
            "fit(net, loader, callbacks=ModelCheckpoint(monitor='val_loss'), enable_checkpointing=True)",
            "monitor='val_loss'",
            way_out="it keeps no best checkpoint",
            kind=LtWarning,
        ),
        row(
            "fit(net, loader, callbacks=EarlyStopping('token'))",
            "EarlyStopping(monitor='token')",
            way_out="Did you mean 'tokens'?",
            kind=LogError,
        ),
    ],
}


def message_of(mistake):
    """Return the error that the user of a row sees, or the warning where the row is of one."""
    torch.manual_seed(0)
    ours = {
        name: getattr(package, name) for package in (lt_averaging, lt_callbacks, lt_tuning) for name in package.__all__
    }
    net = _runs.Net()
    loader = DataLoader(TensorDataset(torch.ones(8, 2)), 2)
    names = {**ours, "net": net, "loader": loader, "fit": _runs._runner("fit")}
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            exec(mistake.wrote, names)
        except LtError as error:
            return error
    found = [one.message for one in told if isinstance(one.message, LtWarning)]
    assert found, f"nothing was told for {mistake.wrote}"
    return found[-1]


ROWS = [mistake for rows in MISTAKES.values() for mistake in rows]


@pytest.mark.parametrize("mistake", ROWS, ids=[mistake.wrote for mistake in ROWS])
def test_a_mistake_is_answered_with_its_name_its_value_and_the_way_out(mistake, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    error = message_of(mistake)
    assert isinstance(error, mistake.kind), repr(error)
    for part in (*mistake.names, mistake.way_out):
        assert part in str(error), str(error)
