import re
import threading
import warnings
from types import FunctionType

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
    monkeypatch.setenv("LT_SILENCE", "")
    lt_core.errors.silence(["LT654"])
    warn("not seen", code="LT654")
    with pytest.raises(LtWarning):
        warn("seen", code="LT655")


def test_a_warning_shows_the_users_line_however_deep_in_lt_it_is_told():
    def told():
        warn("deep", code="LT654")

    def between(function):
        function()

    inner = {"__name__": "lt_inner.module", "warn": warn}
    told, between = (FunctionType(function.__code__, inner) for function in (told, between))
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        between(told)
        warn("level", code="LT654", stacklevel=1)
    assert [warning.filename for warning in seen] == [__file__, __file__]
    assert seen[1].lineno == seen[0].lineno + 1


def test_a_warning_of_a_thread_without_lines_of_the_user_is_shown_all_the_same():
    def tell():
        thread = threading.Thread(target=warn, args=("alone",), kwargs={"code": "LT654"})
        thread.start()
        thread.join()

    with pytest.warns(LtWarning, match=r"alone \[LT654\]"):
        tell()
