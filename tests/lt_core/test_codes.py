import re
import warnings

import pytest

import lt_core
from lt_core import plugins
from lt_core.codes import WARNINGS
from lt_core.errors import LtWarning, warn


def test_the_codes_of_the_warnings_are_found_by_an_entry_point():
    assert "LT190" in WARNINGS
    assert plugins.load("codes", "lt-core") is WARNINGS
    assert all(re.fullmatch(r"LT\d{3}", code) for code in WARNINGS)


def test_a_filter_of_python_turns_off_one_code():
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=r"(?s).*\[LT654\]")
        warn("two\nlines", code="LT654")
        with pytest.raises(LtWarning, match="LT655"):
            warn("two\nlines", code="LT655")


def test_silence_turns_off_one_code(monkeypatch):
    monkeypatch.setattr(lt_core.errors, "_silenced", set())
    lt_core.errors.silence(["LT654"])
    warn("not seen", code="LT654")
    with pytest.raises(LtWarning):
        warn("seen", code="LT655")
