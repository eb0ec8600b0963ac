"""``save_hyperparameters``: what ``__init__`` was called with, in all the ways that users call it."""

import copy
import enum
import pickle
import warnings
from argparse import Namespace
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from torch import nn

from lt_core import ConfigError, LightningModule, LtWarning
from lt_core.files.plain_data import is_plain
from lt_core.hparams import AttributeDict, HyperparametersMixin, logged_hparams, plain_hparams, saved_hparams


class Model(LightningModule):
    def __init__(self, width, depth=2, *rest, lr=0.1, **extra):
        super().__init__()
        self.save_hyperparameters()


class Child(Model):
    def __init__(self, name, width=7, **kwargs):
        super().__init__(width, lr=0.5, **kwargs)


def test_all_arguments_are_kept_defaults_and_kwargs_too():
    model = Model(1, 3, "lost", lr=0.2, momentum=0.9)
    assert dict(model.hparams) == {"width": 1, "depth": 3, "lr": 0.2, "momentum": 0.9}
    assert model.hparams.momentum == 0.9


def test_arguments_of_subclasses_are_kept_over_those_of_parents():
    assert dict(Child("a", beta=1).hparams) == {"name": "a", "width": 7, "depth": 2, "lr": 0.5, "beta": 1}


def test_named_arguments_only():
    class Some(LightningModule):
        def __init__(self, a, b, c=3):
            super().__init__()
            self.save_hyperparameters("a", "c")

    assert dict(Some(1, 2).hparams) == {"a": 1, "c": 3}


def test_a_name_that_is_no_argument_is_an_error_with_the_nearest():
    class Some(LightningModule):
        def __init__(self, learning_rate):
            super().__init__()
            self.save_hyperparameters("learning_rat")

    with pytest.raises(ConfigError, match="no argument 'learning_rat'.*Did you mean 'learning_rate'"):
        Some(1)


@pytest.mark.parametrize("ignore", ["b", ["b"], ("b", "zzz")])
def test_ignored_arguments_are_left_out(ignore):
    class Some(LightningModule):
        def __init__(self, a, b):
            super().__init__()
            self.save_hyperparameters(ignore=ignore)

    assert dict(Some(1, nn.ReLU()).hparams) == {"a": 1}


@dataclass
class Settings:
    lr: float = 0.1
    sizes: list = field(default_factory=lambda: [1])


@pytest.mark.parametrize("conf", [{"lr": 0.1, "sizes": [1]}, Namespace(lr=0.1, sizes=[1]), Settings()])
def test_one_object_that_holds_them_all(conf):
    class Some(LightningModule):
        def __init__(self, conf, other=1):
            super().__init__()
            self.save_hyperparameters(conf)

    model = Some(conf)
    assert dict(model.hparams) == {"lr": 0.1, "sizes": [1]}
    assert saved_hparams(model)["hparams_name"] == "conf"


@pytest.mark.parametrize("args", [(1,), ([1, 2],), ({}, "a"), ({}, {})])
def test_what_holds_no_names_is_an_error(args):
    class Some(LightningModule):
        def __init__(self, a=1):
            super().__init__()
            self.save_hyperparameters(*args)

    with pytest.raises(ConfigError, match="expected names of arguments"):
        Some()


def test_outside_of_init_a_dict_is_needed():
    model = LightningModule()
    model.save_hyperparameters({"lr": 1})
    assert model.hparams.lr == 1
    with pytest.raises(ConfigError, match=r"outside of LightningModule\.__init__"):
        model.save_hyperparameters()


def test_several_calls_add_up():
    class Some(LightningModule):
        def __init__(self, a, conf):
            super().__init__()
            self.save_hyperparameters("a")
            self.save_hyperparameters(conf)

    assert dict(Some(1, {"b": 2}).hparams) == {"a": 1, "b": 2}


def test_a_dataclass_module_keeps_its_fields():
    @dataclass(eq=False)
    class Some(LightningModule):
        width: int
        sizes: list = field(default_factory=lambda: [3])

        def __post_init__(self):
            super().__init__()
            self.save_hyperparameters()

    assert dict(Some(2).hparams) == {"width": 2, "sizes": [3]}


def test_a_call_from_a_helper_and_through_a_decorator_finds_the_init():
    def decorated(init):
        def __init__(self, *args, **kwargs):
            init(self, *args, **kwargs)

        return __init__

    class Some(LightningModule):
        @decorated
        def __init__(self, a, b=2):
            super().__init__()
            self.keep()

        def keep(self):
            self.save_hyperparameters()

    assert dict(Some(1).hparams) == {"a": 1, "b": 2}


def test_another_object_made_inside_init_is_not_mixed_up():
    class Outer(LightningModule):
        def __init__(self, a):
            super().__init__()
            self.inner = Model(9)
            self.save_hyperparameters()

    model = Outer(1)
    assert dict(model.hparams) == {"a": 1}
    assert model.inner.hparams.width == 9


def test_parents_that_are_called_by_name_are_found():
    class Some(Model):
        def __init__(self, own):
            Model.__init__(self, 4)

    assert Some(1).hparams["own"] == 1


def test_hparams_are_there_without_saving_and_take_values():
    model = LightningModule()
    assert dict(model.hparams) == {}
    model.hparams.lr = 3
    assert model.hparams == {"lr": 3}
    assert not model.logs_hyperparameters


def test_initial_values_stay_when_hparams_change():
    model = Model([1, 2], lr=torch.ones(2))
    model.hparams.width.append(3)
    model.hparams.lr.zero_()
    model.hparams_initial.width.append(5)
    assert model.hparams_initial.width == [1, 2]
    assert model.hparams_initial.lr.tolist() == [1, 1]


@dataclass(frozen=True, slots=True)
class Frozen:
    sizes: list


@dataclass
class Tree:
    sizes: list
    parent: "Tree | None" = None
    late: int = field(init=False)

    def __post_init__(self):
        self.parent = self


class Attributes(dict):
    __getattr__ = dict.__getitem__
    __setitem__ = None


@pytest.mark.parametrize(
    ("make", "at"),
    [
        (lambda sizes: {"sizes": sizes}, lambda held: held["sizes"]),
        (lambda sizes: OrderedDict(sizes=sizes), lambda held: held["sizes"]),
        (lambda sizes: defaultdict(list, sizes=sizes), lambda held: held["sizes"]),
        (lambda sizes: Attributes(sizes=sizes), lambda held: held.sizes),
        (lambda sizes: Namespace(sizes=sizes), lambda held: held.sizes),
        (lambda sizes: Namespace(inner=[{"sizes": sizes}]), lambda held: held.inner[0]["sizes"]),
        (Frozen, lambda held: held.sizes),
        (lambda sizes: [(Frozen(sizes),)], lambda held: held[0][0].sizes),
        (Tree, lambda held: held.sizes),
        (Tree, lambda held: held.parent.sizes),
    ],
)
def test_initial_values_stay_when_what_holds_them_is_changed(make, at):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # saved by name
        model = Model(make([1]))
    initial = type(model.hparams_initial.width)
    at(model.hparams.width).append(2)
    at(model.hparams_initial.width).append(3)
    assert at(model.hparams.width) == [1, 2]
    assert at(model.hparams_initial.width) == [1]
    assert initial in (type(model.hparams.width), AttributeDict)


def test_modules_in_hparams_are_no_submodules_and_not_copied():
    backbone = nn.Linear(1, 1)
    with pytest.warns(UserWarning, match="'width'"):
        model = Model(backbone)
    assert model.hparams.width is model.hparams_initial.width is backbone
    assert not list(model.parameters())


def test_copies_and_pickles_keep_hparams():
    for other in (copy.deepcopy(Model([1])), pickle.loads(pickle.dumps(Model([1])))):
        assert other.hparams == {"width": [1], "depth": 2, "lr": 0.1}
        assert isinstance(other.hparams, AttributeDict)


def test_logger_says_whether_loggers_get_them():
    class Some(LightningModule):
        def __init__(self, logger):
            super().__init__()
            self.save_hyperparameters(logger=logger)

    assert Some(True).logs_hyperparameters
    assert not Some(False).logs_hyperparameters


@pytest.mark.parametrize(
    ("calls", "logged"),
    [
        ([((), True)], {"a", "b"}),
        ([(("a",), True), (("b",), False)], {"a"}),
        ([(("b",), False), (("a",), True)], {"a"}),
        ([((), True), (("b",), False)], {"a"}),
        ([((), False), (("b",), True)], {"b"}),
        ([(("b",), False), ((), True)], {"a", "b"}),
        ([((), True), ((), False)], set()),
        ([(({"c": 3},), False), ((), True)], {"a", "b"}),
        ([(({"c": 3},), True), ((), False)], {"c"}),
    ],
)
def test_the_last_call_that_keeps_a_name_decides_whether_loggers_get_it(calls, logged):
    class Some(LightningModule):
        def __init__(self, a=1, b=2):
            super().__init__()
            for args, logger in calls:
                self.save_hyperparameters(*args, logger=logger)

    module = Some()
    assert set(logged_hparams(module)) == logged
    assert module.logs_hyperparameters == bool(logged)
    assert logged_hparams(copy.deepcopy(module)) == logged_hparams(module)


def test_a_subclass_keeps_its_own_from_the_loggers_and_not_its_parents():
    class Base(LightningModule):
        def __init__(self, lr=0.1):
            super().__init__()
            self.save_hyperparameters()

    class Sub(Base):
        def __init__(self, secret="s"):
            super().__init__(lr=0.2)
            self.save_hyperparameters(logger=False)

    assert logged_hparams(Sub()) == {"lr": 0.2}
    assert Sub().hparams == {"lr": 0.2, "secret": "s"}


def test_a_class_of_any_kind_can_keep_its_arguments():
    class Data(HyperparametersMixin):
        def __init__(self, folder, batch_size=32):
            self.save_hyperparameters()

    assert saved_hparams(Data("x"), "datamodule_") == {
        "datamodule_hyper_parameters": {"folder": "x", "batch_size": 32},
        "datamodule_hparams_name": "kwargs",
    }


# ---- AttributeDict -------------------------------------------------------------------------------------------------


def test_attribute_dict_reads_writes_and_prints():
    hparams = AttributeDict(lr=0.1, batch_size=32)
    hparams.depth = 3
    del hparams.lr
    assert hparams == {"batch_size": 32, "depth": 3}
    assert repr(hparams) == '"batch_size": 32\n"depth":      3'
    assert repr(AttributeDict()) == ""
    with pytest.raises(AttributeError, match="no 'dept' among batch_size, depth. Did you mean 'depth'"):
        _ = hparams.dept
    with pytest.raises(AttributeError):
        del hparams.lr
    assert not hasattr(hparams, "nothing")


# ---- plain data ----------------------------------------------------------------------------------------------------


class Mode(enum.Enum):
    FAST = object()


class Level(enum.IntEnum):
    LOW = 1


class Text(enum.StrEnum):
    A = "a"


def function():
    """Stands for what cannot be saved."""


class Config:
    """Stands for an object of the user's."""


class Sequencelike(list):
    pass


CASES = [
    (torch.float16, torch.float16, "torch.float16"),
    (torch.device("cuda", 1), torch.device("cuda", 1), "cuda:1"),
    (torch.Size([1, 2]), torch.Size([1, 2]), [1, 2]),
    (Path("a/b"), "a/b", "a/b"),
    (Namespace(a=Namespace(b=1)), {"a": {"b": 1}}, {"a": {"b": 1}}),
    (AttributeDict(a=(1, {2})), {"a": (1, {2})}, {"a": (1, [2])}),
    (OrderedDict(b=1, a=2), OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    ({(1, 2): 3}, {(1, 2): 3}, {"(1, 2)": 3}),
    (frozenset({1}), {1}, [1]),
    (None, None, None),
]


@pytest.mark.parametrize(("value", "saved", "shown"), CASES, ids=lambda case: str(case)[:20])
def test_what_has_a_plain_form_is_saved_in_it(value, saved, shown):
    entries = saved_hparams(Model(value))
    assert entries["hyper_parameters"]["width"] == saved
    assert type(entries["hyper_parameters"]["width"]) is type(saved)
    assert is_plain(entries)
    assert plain_hparams({"x": value}) == {"x": shown}


LOST = [
    (Mode.FAST, "FAST"),
    (Level.LOW, 1),
    (Text.A, "a"),
    (Settings(), {"lr": 0.1, "sizes": [1]}),
    (Sequencelike([1]), [1]),
    (namedtuple("Pair", "a b")(1, 2), (1, 2)),  # noqa: PYI024
    (defaultdict(list, a=[1]), {"a": [1]}),
    ({Mode.FAST: 1}, {"Mode.FAST": 1}),
    ([{"deep": Mode.FAST}], [{"deep": "FAST"}]),
]


@pytest.mark.parametrize(("value", "shown"), LOST, ids=lambda case: str(case)[:20])
def test_what_would_come_back_as_something_else_is_saved_by_name_and_shown_as_before(value, shown):
    with pytest.warns(LtWarning, match="'width' cannot be saved as plain data"):
        entries = saved_hparams(Model(value))
    assert "width" not in entries["hyper_parameters"]
    assert entries["hparams_by_name"] == {"width": shown}
    assert is_plain(entries)
    assert plain_hparams({"x": value}) == {"x": shown}


def test_numbers_of_numpy_become_numbers_and_arrays_tensors():
    numpy = pytest.importorskip("numpy")
    entries = saved_hparams(Model(numpy.float64(0.5), {"a": numpy.arange(3)}))
    saved = entries["hyper_parameters"]
    assert saved["width"] == 0.5
    assert type(saved["width"]) is float
    assert torch.equal(saved["depth"]["a"], torch.arange(3))
    assert entries["hparams_arrays"] == [["depth", "a"]]
    assert is_plain(entries)


def test_an_array_of_texts_is_saved_by_name():
    numpy = pytest.importorskip("numpy")
    with pytest.warns(LtWarning, match="LT651"):
        assert saved_hparams(Model(numpy.array(["x"])))["hparams_by_name"] == {"width": ["x"]}


def test_large_arrays_are_shown_by_their_shape():
    numpy = pytest.importorskip("numpy")
    assert plain_hparams({"a": numpy.ones((5, 5)), "b": numpy.ones(2)}) == {
        "a": "tensor of shape (5, 5)",
        "b": [1.0, 1.0],
    }


def test_a_tensor_of_a_class_of_its_own_keeps_its_data_and_one_without_data_is_named():
    class Image(torch.Tensor):
        pass

    with pytest.warns(LtWarning, match="'depth' cannot be saved as plain data"):
        model = Model(torch.ones(2).as_subclass(Image), torch.ones(2, device="meta"))
    entries = saved_hparams(model)
    assert type(entries["hyper_parameters"]["width"]) is torch.Tensor
    assert is_plain(entries)


@pytest.mark.parametrize(
    ("name", "args"), [("exp", None), ("poly1d", [[1, 2]]), ("datetime64", ["2020-01-01"]), ("array", [[object()]])]
)
def test_what_is_no_number_of_numpy_is_saved_by_name(name, args):
    found = getattr(pytest.importorskip("numpy"), name)
    with pytest.warns(LtWarning, match="LT651"):
        model = Model(found if args is None else found(*args))
    entries = saved_hparams(model)
    assert is_plain(entries)
    assert entries["hparams_by_name"]["width"].startswith("numpy.")
    assert plain_hparams(model.hparams)["width"] == entries["hparams_by_name"]["width"]


def test_what_has_none_is_saved_by_name_with_one_warning_that_says_what_is_needed():
    with pytest.warns(LtWarning, match="plain data") as caught:
        model = Model(function, [Config()], lr=nn.ReLU())
    (warning,) = caught
    assert "'width', 'depth', 'lr'" in str(warning.message)
    assert "load_from_checkpoint(path, width=..., depth=..., lr=...)" in str(warning.message)
    assert warning.filename == __file__
    entries = saved_hparams(model)
    assert entries["hyper_parameters"] == {}
    assert entries["hparams_by_name"] == {
        "width": f"{__name__}.function",
        "depth": [f"{__name__}.Config"],
        "lr": "torch.nn.modules.activation.ReLU",
    }
    assert is_plain(entries)


def test_defaults_that_are_no_plain_data_need_no_warning():
    class Some(LightningModule):
        def __init__(self, act=nn.ReLU, fn=function):
            super().__init__()
            self.save_hyperparameters()

    class Sub(Some):
        def __init__(self):
            super().__init__(act=nn.GELU)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        Some()
        Sub()  # takes no act, so that nobody has to give one again


def test_small_tensors_are_shown_and_large_ones_named():
    shown = plain_hparams({"a": torch.ones(2), "b": nn.Parameter(torch.ones(5, 5))})
    assert shown == {"a": [1.0, 1.0], "b": "tensor of shape (5, 5)"}


def test_a_hyperparameter_that_contains_itself_is_an_error():
    loop: dict = {}
    loop["x"] = loop
    with pytest.raises(ConfigError, match="contains itself"):
        plain_hparams({"a": loop})


def test_nothing_saved_leaves_no_entries():
    assert saved_hparams(LightningModule()) == {}


def test_objects_with_attributes_only_are_named():
    assert plain_hparams({"a": SimpleNamespace(b=1)}) == {"a": "types.SimpleNamespace"}


def test_a_subclass_that_ignores_a_name_takes_it_from_what_the_parent_kept():
    class Parent(HyperparametersMixin):
        def __init__(self, lr, net):
            self.save_hyperparameters()

    class Child(Parent):
        def __init__(self, lr, net, more=1):
            super().__init__(lr, net)
            self.save_hyperparameters(ignore=["net"])

    child = Child(0.1, "net")
    assert child.hparams == child.hparams_initial == {"lr": 0.1, "more": 1}
