"""Under lt.compat Lightning's own arguments stand in the signature, and say nothing of a new place."""

import inspect
import warnings

import pytest

pytest.importorskip("lt_compat")

from lt_compat.lightning.trainer import trainer_class
from lt_core.errors import LtDeprecationWarning

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)


@pytest.mark.parametrize("given", [{"enable_autolog_hparams": False}, {"model_registry": None}])
def test_an_argument_of_lightnings_is_shown_and_taken_without_a_note(given):
    kind = trainer_class()
    assert given.keys() <= inspect.signature(kind).parameters.keys()
    with warnings.catch_warnings():
        warnings.simplefilter("error", LtDeprecationWarning)
        made = kind(accelerator="cpu", **QUIET, **given)
    assert {name: getattr(made.settings, name) for name in given} == given
