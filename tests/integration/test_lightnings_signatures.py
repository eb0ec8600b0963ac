"""Under lt.compat what subclasses override has Lightning's types, for packages that check overrides as they import."""

import inspect
from typing import get_type_hints

import pytest

from lt_compat.lightning.trainer import trainer_class
from lt_core import Callback

HOOKS = [name for name, hook in vars(Callback).items() if inspect.isfunction(hook) and not name.startswith("_")]


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_of_a_callback_takes_the_trainer_that_scripts_import(name):
    types = get_type_hints(getattr(Callback, name))
    trainer = trainer_class()
    assert get_type_hints(getattr(Callback, name)).get("trainer", trainer) is trainer
    assert types.keys() == get_type_hints(getattr(Callback, name)).keys()
