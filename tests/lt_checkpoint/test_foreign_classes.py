"""Files that hold objects of other people's classes: their names stand there, all else is read, nothing is imported."""

import sys

import pytest
import torch
from tests import processes
from torch import nn

import lt_checkpoint
from lt_core import CheckpointError, CheckpointIO, LightningModule
from lt_core.checkpoint import OneFile
from lt_core.errors import LtWarning

THEIRS = """
import collections, dataclasses, datetime, enum, functools, io, json, logging, math, re, sys, types, uuid
import torch
print("imported", file=sys.stderr)
class Config:
    def __init__(self): self.a, self.b = 1, {"x": 2}
class OwnDict(dict): pass
class OwnList(list): pass
class Kind(enum.Enum): A = 1
class Outer:
    class Inner:
        def __init__(self): self.a = 1
        def method(self): pass
    class Dict(dict): pass
    class Kind(enum.Enum): A = 1
    @classmethod
    def make(cls): pass
@dataclasses.dataclass
class Record: x: int = 1
@dataclasses.dataclass(slots=True)
class Slots: x: int = 1
class OwnError(OSError):
    def __init__(self, *args): super().__init__(*args); self.a = 1
Pair = collections.namedtuple("Pair", "a b")
def function(x): return x
VALUES = {
    "object": Config(), "class": Config, "function": function, "enum": Kind.A, "dataclass": Record(), "slots": Slots(),
    "named tuple": Pair(1, 2), "partial": functools.partial(function, 1), "time": datetime.timedelta(1),
    "module": torch.nn.Linear(2, 2), "activation": torch.nn.ReLU(), "optimizer": torch.optim.SGD([torch.nn.Parameter(
    torch.ones(1))], 0.1), "nested": {"a": [Config(), (Kind.A,)]}, "uuid": uuid.uuid4(), "generator": torch.Generator(),
    "nested class": Outer.Inner, "object of a nested class": Outer.Inner(), "enum of a class": Outer.Kind.A,
    "method": Outer.Inner().method, "class method": Outer.make, "builtin": len, "function of math": math.sqrt,
    "function of torch": torch.tanh, "activation function": torch.nn.functional.gelu, "range": range(3),
    "ellipsis": ..., "pattern": re.compile("a"), "buffer": io.BytesIO(b"a"), "chain": collections.ChainMap({"a": 1}),
    "logger": logging.getLogger("a"), "type": type, "module's class": torch.nn.ReLU, "tensor's class": torch.Tensor,
    "error": ValueError("a"), "error of the system": OSError(2, "a"), "error's class": KeyError,
    "own error": OwnError(1), "error of a library": json.JSONDecodeError("a", "b", 1), "interrupt": KeyboardInterrupt(),
    "errors": ExceptionGroup("a", [ValueError(1), TypeError()]),
}
CONTAINERS = {"own dict": OwnDict(a=1), "own list": OwnList([1]), "deque": collections.deque([1], 3),
    "dict of a class": Outer.Dict(a=1)}
def save(value, path):
    tree = {"epoch": 0, "global_step": 1, "state_dict": {"layer.weight": torch.full((1, 2), 3.0)},
            "hyper_parameters": {"width": 2, "odd": value}, "callbacks": {"X": {"it": value, "n": 1}}}
    torch.save(tree, path)
"""

NAMES = ["object", "class", "function", "enum", "dataclass", "slots", "named tuple", "partial", "time", "module"]
NAMES += ["activation", "optimizer", "nested", "uuid", "generator", "nested class", "object of a nested class"]
NAMES += ["enum of a class", "method", "class method", "builtin", "function of math", "function of torch", "range"]
NAMES += ["activation function", "ellipsis", "pattern", "buffer", "chain", "logger", "type", "module's class"]
NAMES += ["tensor's class", "error", "error of the system", "error's class", "own error", "error of a library"]
NAMES += ["interrupt", "errors"]
CONTAINERS = {"own dict": {"a": 1}, "own list": [1], "deque": [1], "dict of a class": {"a": 1}}


class Net(LightningModule):
    def __init__(self, width, odd=None):
        super().__init__()
        self.save_hyperparameters()
        self.odd = odd
        self.layer = nn.Linear(width, 1, bias=False)


class Needs(Net):
    def __init__(self, width, odd):
        super().__init__(width, odd)


class Holds(LightningModule):
    def __init__(self, hparams):
        super().__init__()
        self.given = hparams
        self.layer = nn.Linear(2, 1, bias=False)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("theirs")
    (folder / "theirs.py").write_text(THEIRS)
    code = "import theirs\nfor n, v in {**theirs.VALUES, **theirs.CONTAINERS}.items(): theirs.save(v, n + '.ckpt')"
    processes.run([sys.executable, "-c", code], cwd=folder, check=True)
    return folder


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.filterwarnings("ignore:.*LT621")
def test_weights_load_and_the_argument_is_asked_for_by_its_name(files, name):
    file = files / f"{name}.ckpt"
    with pytest.warns(UserWarning, match=r"odd was saved by name only .*LT665"):
        net = Net.load_from_checkpoint(file)
    assert net.layer.weight.tolist() == [[3.0, 3.0]]
    assert net.odd is None
    with pytest.raises(CheckpointError, match=r"needs odd \(saved by name only: .*LT660"):
        Needs.load_from_checkpoint(file)
    assert Needs.load_from_checkpoint(file, odd=5).odd == 5
    lt_checkpoint.verify(file)
    assert "theirs" not in sys.modules


def test_what_an_object_was_is_said(files):
    with pytest.warns(UserWarning, match=r"object\.ckpt holds objects of theirs\.Config\. .*LT621"):
        tree = lt_checkpoint.load(files / "object.ckpt")
    assert tree["callbacks"] == {"X": {"it": "theirs.Config", "n": 1}}
    assert tree["hparams_by_name"] == {"odd": "theirs.Config"}


@pytest.mark.parametrize("name", CONTAINERS)
def test_subclasses_of_lists_and_dicts_are_lists_and_dicts(files, name):
    tree = lt_checkpoint.load(files / f"{name}.ckpt")
    assert tree["callbacks"]["X"]["it"] == CONTAINERS[name]
    assert Net.load_from_checkpoint(files / f"{name}.ckpt").odd == CONTAINERS[name]


@pytest.mark.parametrize("io", [CheckpointIO(), OneFile()], ids=["lt-checkpoint", "one file"])
@pytest.mark.filterwarnings("ignore:.*LT655")
def test_what_its_own_code_raises_is_no_damage(files, io):
    with pytest.raises(CheckpointError, match=r"its own code raised ModuleNotFoundError: No module named 'theirs'"):
        io.load_checkpoint(files / "object.ckpt", trusted=True)


def test_names_that_a_process_has_declared_safe_are_not_called_all_the_same(tmp_path, monkeypatch):
    called = []

    class Declared:
        def __init__(self):
            self.x = 1

        def __setstate__(self, state):
            called.append(state)

    Declared.__module__, Declared.__qualname__ = "elsewhere", "Declared"
    module = type(sys)("elsewhere")
    module.Declared = Declared
    monkeypatch.setitem(sys.modules, "elsewhere", module)
    torch.save({"state_dict": {}, "x": Declared()}, tmp_path / "a.ckpt")
    with torch.serialization.safe_globals([Declared]):
        with pytest.warns(UserWarning, match=r"elsewhere\.Declared"):
            assert lt_checkpoint.load(tmp_path / "a.ckpt")["x"] == "elsewhere.Declared"
        assert Declared in torch.serialization.get_safe_globals()
    assert called == []


def test_one_argument_that_holds_all_lacks_what_is_a_name(files, tmp_path):
    tree = {"state_dict": {"layer.weight": torch.ones(1, 2)}, "hyper_parameters": {"a": 1}, "hparams_name": "hparams"}
    CheckpointIO().save_checkpoint({**tree, "hparams_by_name": {"odd": "theirs.Config"}}, tmp_path / "a.ckpt")
    with pytest.warns(UserWarning, match=r"odd \(theirs.Config\) were saved by name only .*odd=\.\.\.\).*LT665"):
        assert Holds.load_from_checkpoint(tmp_path / "a.ckpt").given == {"a": 1}
    assert Holds.load_from_checkpoint(tmp_path / "a.ckpt", odd=3).given == {"a": 1, "odd": 3}


@pytest.mark.parametrize(
    "text",
    [
        "odd: !!python/object:theirs.Config {a: 1}\n",
        "odd: !!python/name:theirs.function ''\n",
        "odd: [1, {a: !!python/object/apply:theirs.Kind [1]}]\n",
        "odd: !!python/object/new:theirs.Config {}\n",
    ],
)
def test_names_in_a_yaml_file_are_asked_for_too(text, tmp_path):
    pytest.importorskip("lt_loggers", reason="reads hparams.yaml")
    CheckpointIO().save_checkpoint({"state_dict": {"layer.weight": torch.ones(1, 2)}}, tmp_path / "a.ckpt")
    file = tmp_path / "hparams.yaml"
    file.write_text(f"width: 2\n{text}")
    with pytest.raises(CheckpointError, match=r"needs odd \(saved by name only: .*theirs"):
        Needs.load_from_checkpoint(tmp_path / "a.ckpt", hparams_file=file)
    assert Needs.load_from_checkpoint(tmp_path / "a.ckpt", hparams_file=file, odd=1).odd == 1


def test_the_name_that_stands_in_a_yaml_file_of_ours_never_goes_to_the_constructor(tmp_path):
    pytest.importorskip("lt_loggers", reason="reads hparams.yaml")
    tree = {"state_dict": {"layer.weight": torch.ones(1, 2)}, "hyper_parameters": {"width": 2}}
    CheckpointIO().save_checkpoint({**tree, "hparams_by_name": {"odd": "torch.nn.ReLU"}}, tmp_path / "a.ckpt")
    (tmp_path / "hparams.yaml").write_text("width: 2\nodd: torch.nn.ReLU\n")
    with pytest.raises(CheckpointError, match="needs odd"):
        Needs.load_from_checkpoint(tmp_path / "a.ckpt", hparams_file=tmp_path / "hparams.yaml")


def test_a_file_of_a_newer_format_says_so(tmp_path):
    header = {"format": 99, "run": "r", "time": 1, "step": 1, "epoch": 0, "weights_only": False}
    tree = {"lt_header": header, "state_dict": {"layer.weight": torch.ones(1, 2)}}
    CheckpointIO().save_checkpoint(tree, tmp_path / "a.ckpt")
    with pytest.warns(LtWarning, match=r"newer version of lt, in format 99; this one knows .*LT622"):
        Net.load_from_checkpoint(tmp_path / "a.ckpt", width=2)


@pytest.mark.parametrize("saved", [False, True])
@pytest.mark.parametrize("loads", [False, True])
def test_compiled_parts_load_into_plain_ones_and_back(saved, loads, tmp_path):
    class Part(LightningModule):
        def __init__(self, compiled):
            super().__init__()
            layer = nn.Sequential(nn.BatchNorm1d(2), nn.Linear(2, 2))
            self.layer = torch.compile(layer, backend="eager") if compiled else layer

    one = Part(saved)
    CheckpointIO().save_checkpoint({"state_dict": one.state_dict()}, tmp_path / "a.ckpt")
    other = Part.load_from_checkpoint(tmp_path / "a.ckpt", compiled=loads)
    for mine, theirs in zip(one.state_dict().values(), other.state_dict().values(), strict=True):
        assert torch.equal(mine, theirs)
