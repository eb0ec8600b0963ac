"""What is wrong is said without the library; what can be tried is tried with a stand-in of it."""

import sys
from contextlib import contextmanager
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest

from lt_core.errors import ConfigError
from lt_lowbits.bitsandbytes import Bitsandbytes
from lt_lowbits.transformer_engine import TransformerEngine


def test_transformer_engine_says_what_to_install():
    with pytest.raises(ConfigError, match=r"lt-lowbits\[transformer-engine\]"):
        TransformerEngine()


def test_bitsandbytes_says_what_to_install():
    with pytest.raises(ConfigError, match=r"lt-lowbits\[bitsandbytes\]"):
        Bitsandbytes("nf4")


def test_an_unknown_mode_of_bitsandbytes_is_named_with_a_guess():
    with pytest.raises(ConfigError, match="Did you mean 'int8'"):
        Bitsandbytes("int88")


class Fp8:
    """What Transformer Engine has for its regions: whether 8-bit floats are on."""

    on = False

    @staticmethod
    @contextmanager
    def fp8_autocast(enabled=True, fp8_recipe=None):
        before, Fp8.on = Fp8.on, enabled
        yield
        Fp8.on = before


def test_transformer_engine_computes_backward_and_steps_outside_of_its_region(monkeypatch):
    library = ModuleType("transformer_engine")
    library.__spec__, library.pytorch = ModuleSpec("transformer_engine", None), Fp8
    recipes = ModuleType("transformer_engine.common.recipe")
    recipes.DelayedScaling = dict
    monkeypatch.setitem(sys.modules, "transformer_engine", library)
    monkeypatch.setitem(sys.modules, "transformer_engine.common", ModuleType("transformer_engine.common"))
    monkeypatch.setitem(sys.modules, "transformer_engine.common.recipe", recipes)
    precision = TransformerEngine()
    leave = precision.leave_step(lambda: Fp8.on)
    assert precision.wrap_step(lambda: (Fp8.on, leave(), Fp8.on))() == (True, False, True)


@pytest.mark.parametrize("name", ["Float8", "Int8"])
def test_eight_bits_by_torchao_say_what_to_install(name, monkeypatch):
    torchao = import_module("lt_lowbits.torchao")
    monkeypatch.setattr(torchao, "find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r"needs the package torchao: .*lt-lowbits\[torchao\].*LT687"):
        getattr(torchao, name)()


def test_an_unknown_recipe_of_float8_is_an_error():
    with pytest.raises(ConfigError, match=r"'rowwise'.*Did you mean.*LT688"):
        import_module("lt_lowbits.torchao").Float8(recipe="row_wise")
