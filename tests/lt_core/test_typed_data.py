"""Values of a few more types: plain in the file, what they were when they come back; nothing else is made of a file."""

import io
import re
from collections import Counter, OrderedDict, defaultdict, deque
from pathlib import Path, PurePosixPath, PureWindowsPath

import pytest
import torch

from lt_core import CheckpointError
from lt_core.files.plain_data import is_plain
from lt_core.files.typed_data import plain_with_types, with_types

np = pytest.importorskip("numpy")

SHARED = np.float64(0.5)
TWICE = deque([np.float64(1), "a"], 5)
SAME = (1, (TWICE, [Path("x")]))
STEPS = np.arange(6).reshape(2, 3)

VALUES = {
    **{kind.__name__: kind(1) for kind in (np.bool_, np.int8, np.int64, np.uint64, np.float16, np.float32, np.float64)},
    "complex": np.complex128(1 + 2j),
    "not a number": np.float32("inf"),
    "array": STEPS,
    "array without a dimension": np.array(3.5),
    "empty array": np.zeros((0, 2), np.float32),
    "array of bools": np.array([True, False]),
    "array of uint16": np.array([1, 2], np.uint16),
    "reversed array": STEPS[:, ::-1],
    "transposed array": STEPS.T,
    "big-endian array": np.arange(3, dtype=">i4"),
    "deque": deque([1, 2], maxlen=3),
    "deque without end": deque([torch.zeros(2), "a"]),
    "deque of numbers": deque(map(np.float64, (1, 2, 3)), maxlen=9),
    "defaultdict of lists": defaultdict(list, {"a": [np.int64(1)]}),
    "defaultdict of nothing": defaultdict(None, {1: 2}),
    "defaultdict of deques' lists": defaultdict(int, {"a": deque([Path("x")], 2)}),
    "Counter": Counter({np.int64(30): np.int64(1), 80: 2}),
    "nested Counter": {"a": [Counter({3: 1})]},
    "path": Path("a/b"),
    "pure path": PurePosixPath("/a"),
    "windows path": PureWindowsPath("c:\\a"),
    "frozenset": frozenset({1, "a"}),
    "tuple": (np.float64(1), (Path("a"),)),
    "history": list(map(np.float32, range(1000))),
    "keys": {np.int32(3): 1, (np.int64(1), "a"): Path("b")},
    "ordered": OrderedDict(a=np.int64(2)),
    "same number": {"lr": SHARED, "initial_lr": SHARED},
    "same deque": [TWICE, {"a": TWICE}],
    "same tuple": [(TWICE, 1), [SAME], {"a": SAME, "b": (SAME,)}],
}


def file_of(tree):
    """A tree as any reader of torch's sees it."""
    buffer = io.BytesIO()
    torch.save(tree, buffer)
    buffer.seek(0)
    return torch.load(buffer, weights_only=True)


def there_and_back(value):
    plain, missing = plain_with_types({"value": value}, lambda keys: 0)
    assert is_plain(plain)
    assert not missing
    return with_types(file_of(plain))["value"]


def assert_same(one, other):
    assert type(one) is type(other)
    if isinstance(one, (np.ndarray, torch.Tensor)):
        assert one.shape == other.shape
        assert str(one.dtype) == str(other.dtype)
        assert (one == other).all()
    elif isinstance(one, dict):
        assert list(one) == list(other)
        assert getattr(one, "default_factory", 0) == getattr(other, "default_factory", 0)
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, (list, tuple, deque)):
        assert getattr(one, "maxlen", 0) == getattr(other, "maxlen", 0)
        assert len(one) == len(other)
        for a, b in zip(one, other, strict=True):
            assert_same(a, b)
    else:
        assert one == other


@pytest.mark.parametrize("name", VALUES)
def test_it_comes_back_as_what_it_was(name):
    found = there_and_back(VALUES[name])
    if name == "big-endian array":
        assert found.tolist() == [0, 1, 2]
    elif name in ("Counter", "keys"):  # a number of Python's is the same key
        assert found == VALUES[name]
        assert type(found) is type(VALUES[name])
    else:
        assert_same(VALUES[name], found)


@pytest.mark.parametrize(
    ("value", "found"),
    [
        (np.array(["a", "bc"]), ["a", "bc"]),
        (np.array([b"a"]), [b"a"]),
        (np.array([1, "a", None], dtype=object), [1, "a", None]),
        (np.str_("a"), "a"),
    ],
)
def test_arrays_of_strings_and_objects_are_lists(value, found):
    assert_same(found, there_and_back(value))


class Other(deque):
    """A subclass, which only its own module can make."""


class OwnPath(type(Path())):
    """Likewise."""


@pytest.mark.parametrize(
    "value",
    [
        object(),
        np.array([object()]),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8")]),
        np.array(["2020-01-01"], dtype="datetime64[D]"),
        np.datetime64("2020-01-01"),
        np.longdouble(1),
        np.ma.masked_array([1, 2], [True, False]),
        np.dtype("f8"),
        Other([1]),
        OwnPath("a"),
        defaultdict(lambda: 0),
        defaultdict(deque),
        deque([print]),
        {Path("a"): 1},
        range(3),
    ],
    ids=lambda value: type(value).__name__,
)
def test_anything_else_is_refused_or_missing(value):
    with pytest.raises(CheckpointError, match=r"checkpoint\['value'\].* holds a"):
        plain_with_types({"value": value}, lambda keys: 0)
    plain, missing = plain_with_types({"value": value, "rest": Path("a"), "deep": {"x": [value], "y": 1}}, lambda _: 1)
    plain.pop("lt_types")
    assert plain == {"rest": "a"}
    assert {*missing} == {("value",), ("deep",)}


def nested(levels, kind):
    value = []
    for _ in range(levels):
        value = kind([value])
    return value


ENDLESS: dict = {}
ENDLESS["parent"] = [ENDLESS]


@pytest.mark.parametrize("kind", [list, tuple, deque, lambda items: {"x": items}])
def test_what_nests_too_deep_is_missing(kind):
    assert_same(nested(90, kind), there_and_back(nested(90, kind)))
    for value in (nested(500, kind), kind([ENDLESS])):
        plain, missing = plain_with_types({"value": value, "rest": 1}, lambda _: 1)
        assert plain == {"rest": 1}
        assert re.search("goes on for 200 levels|recursion", missing["value",])


def test_temporary_values_are_not_taken_for_each_other():
    values = [np.array([str(i)], dtype=object) for i in range(100)] + [deque([[i]]) for i in range(100)]
    found = there_and_back(values)
    assert found == [[str(i)] for i in range(100)] + [deque([[i]]) for i in range(100)]


def test_a_history_takes_one_mark():
    plain, _ = plain_with_types({"loss": list(map(np.float64, range(10_000)))}, len)
    assert len(plain["lt_types"]) == 1


# ---- marks that lie --------------------------------------------------------------------------------------------------


class Trap(torch.Tensor):
    """A class of tensors that somebody else has, and that does something as it is made."""

    made = 0

    @classmethod
    def __tensor_unflatten__(cls, *args):
        Trap.made += 1


NEST: list = []
NEST.append(NEST)

LIES = {
    "no list": "x",
    "no entries": [1, None, ("a",), (1, 2, 3, 4)],
    "no keys": [("value", "deque", None), (None, "deque", None), ({}, "deque", None)],
    "keys that are none": [([["a"]], "deque", None), ([{}], "deque", None), ([torch.zeros(1)], "deque", None)],
    "keys that lead nowhere": [(["gone"], "deque", None), (["value", "x", 0], "deque", None)],
    "no type": [(["value"], kind, None) for kind in (None, [], "os.system", "builtins.eval", "object", "Other")],
    "huge maxlen": [(["value"], "deque", 2**80), (["value"], "deque", -1), (["value"], "deque", "1")],
    "short maxlen": [(["value"], "deque", 1)],
    "factory": [(["dict"], "defaultdict", name) for name in ("eval", "object", "type", "os.system", 3, [])],
    "wrong form": [([key], "ndarray", None) for key in ("value", "dict", "text")],
    "wrong form of a path": [([key], "Path", None) for key in ("value", "dict", "number")],
    "too large a number": [(["number"], "int8", None), (["number"], "float64", "x" * 100), (["text"], "int8", None)],
    "other types of numpy": [(["number"], kind, None) for kind in ("dtype", "object_", "void", "save", "memmap")],
    "a tensor that needs gradients": [(["grads"], "ndarray", None)],
    "each of nothing": [(["number", "*"], "float64", None)],
    "endless keys": [(["nest", *[0] * 100_000], "deque", None)],
    "a class that nobody declared": [(["value"], "tensor", [f"{__name__}.Trap", None, [1], [1]])],
    "a class of torch's": [(["dict"], "tensor", ["torch.distributed.tensor.DTensor", None, [1], [1]])],
    "the tree itself": [([], "deque", None), ([], "Path", None)],
}


@pytest.mark.parametrize("lie", LIES)
def test_what_a_file_says_wrongly_leaves_its_plain_values(lie):
    values = {"value": [1, 2], "dict": {}, "text": "a", "number": 300, "nest": NEST}
    tree = {**values, "grads": torch.zeros(2, requires_grad=True), "lt_types": LIES[lie]}
    found = with_types(tree)
    for key, value in values.items():
        assert found[key] is value or (lie == "too large a number" and key == "number"), key
    assert Trap.made == 0
