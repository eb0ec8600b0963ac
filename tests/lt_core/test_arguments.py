"""Constructors that compare their arguments with their annotations."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from lt_core.arguments import checks_arguments
from lt_core.errors import ConfigTypeError


class Thing:
    @checks_arguments
    def __init__(
        self,
        name: str = "a",
        folder: str | os.PathLike[str] | None = None,
        flag: bool = False,
        maybe: bool | None = None,
        rate: float = 0.1,
        function: Callable[[Any], int] | None = None,
        either: Callable[[Any], int | float] | int = 1,
        **more: Any,
    ) -> None:
        self.given = (name, folder, flag, maybe, rate, function, either, more)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"flag": "False"}, r"Thing\(flag='False'\): expected True or False; .* of type str. Write flag=False."),
        ({"flag": "yes"}, "Write flag=True"),
        ({"flag": None}, "received a value of type NoneType"),
        ({"maybe": 2}, "expected True or False or None"),
        ({"rate": "1e-3"}, "expected a number; received a value of type str. Write rate=0.001, without quotes"),
        ({"rate": "much"}, r"received a value of type str. \[LT179\]"),
        ({"rate": True}, "expected a number"),
        ({"name": 3}, "expected a string"),
        ({"folder": 3}, "expected a path or None; received a value of type int. Write folder='folder'"),
        ({"folder": b"x"}, "expected a path"),
        ({"function": 3}, "expected a function or None"),
        ({"name": int}, "received the class int"),
    ],
)
def test_wrong_arguments_are_told_with_the_way_out(arguments, message):
    with pytest.raises(ConfigTypeError, match=message):
        Thing(**arguments)


class Narrow(Thing):
    @checks_arguments
    def __init__(self, level: int = 0, **more: Any) -> None:
        super().__init__(**more)


class Plain:
    @checks_arguments
    def __init__(self, rate: float = 0.1) -> None: ...


class Passing(Plain):
    def __init__(self, *, depth: int = 1, **more: Any) -> None:
        super().__init__(**more)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Plain(rat=1), r"Plain\(rat=1\): there is no argument 'rat'. Did you mean 'rate'\? \[LT367\]"),
        (lambda: Passing(deep=1), r"Passing\(deep=1\): there is no argument 'deep'. Did you mean 'depth'\?"),
        (lambda: Plain(xyz=1), "there is no argument 'xyz'. Expected: rate."),
    ],
)
def test_a_misspelt_argument_is_told_what_it_may_be(make, message):
    with pytest.raises(ConfigTypeError, match=message):
        make()
    assert Narrow(flagg=1).given[-1] == {"flagg": 1}  # what takes all is told nothing


def test_arguments_given_by_place_are_looked_at_too():
    with pytest.raises(ConfigTypeError, match="expected a path"):
        Thing("a", 3)


def test_what_fits_or_is_annotated_otherwise_is_left_as_it_is():
    numpy = pytest.importorskip("numpy")
    given = {"folder": Path("x"), "flag": 1, "maybe": numpy.bool_(True), "rate": numpy.float32(2), "function": len}
    assert Thing("b", **given, either="what", further=3).given == ("b", *given.values(), "what", {"further": 3})
    assert Thing().given[:3] == ("a", None, False)


def test_the_signature_stays():
    import inspect

    assert list(inspect.signature(Thing).parameters)[:2] == ["name", "folder"]
