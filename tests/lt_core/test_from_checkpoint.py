"""``load_from_checkpoint``: the class is made as it was, the weights are in it; what does not fit is said."""

import enum
import io
from argparse import Namespace
from collections import OrderedDict, defaultdict
from dataclasses import dataclass
from pathlib import Path, PureWindowsPath

import pytest
import torch
from torch import nn

from lt_core import CheckpointError, CheckpointIO, ConfigError, DataSource, LightningModule
from lt_core.hparams import HyperparametersMixin, saved_hparams, settle_hparams
from lt_core.loading.from_checkpoint import load_from_checkpoint, load_state_dict_strictly


class Model(LightningModule):
    def __init__(self, width, bias=True, lr=0.1):
        super().__init__()
        self.save_hyperparameters()
        self.layer = nn.Linear(width, 2, bias=bias)


def save(module: nn.Module, path: Path, **more) -> Path:
    saved = saved_hparams(module) if isinstance(module, LightningModule) else {}
    CheckpointIO().save_checkpoint({"state_dict": module.state_dict(), **saved, **more}, path)
    return path


@pytest.fixture
def path(tmp_path):
    return tmp_path / "a.ckpt"


def test_a_module_comes_back_with_its_hyperparameters_and_weights(path):
    model = Model(3, lr=0.5)
    for source in (save(model, path), str(path), f"file://{path}", io.BytesIO(path.read_bytes())):
        loaded = Model.load_from_checkpoint(source)
        assert loaded.hparams == model.hparams
        assert torch.equal(loaded.layer.weight, model.layer.weight)


def test_keywords_replace_saved_hyperparameters(path):
    assert Model.load_from_checkpoint(save(Model(3), path), lr=9).hparams == {"width": 3, "bias": True, "lr": 9}


def test_an_unknown_keyword_is_an_error_with_the_nearest(path):
    with pytest.raises(ConfigError, match="takes no 'widht', but width, bias, lr. Did you mean 'width'"):
        Model.load_from_checkpoint(save(Model(3), path), widht=4)


def test_keywords_that_are_far_from_any_are_ignored_with_one_warning(path):
    with pytest.warns(UserWarning, match=r"takes no 'num_workers', but width, bias, lr. They are ignored") as told:
        model = Model.load_from_checkpoint(save(Model(3), path), num_workers=4, batch=2)
    assert len(told) == 1
    assert model.hparams == {"width": 3, "bias": True, "lr": 0.1}


class Hands(Model):
    def __init__(self, **kwargs):
        super().__init__(**kwargs)


def test_a_keyword_that_goes_on_as_kwargs_and_is_not_taken_there_says_where_it_came_from(path):
    with pytest.raises(ConfigError, match=r"Model.__init__, to which Hands hands .* takes no 'bais'. Leave it out"):
        Hands.load_from_checkpoint(save(Model(3), path), bais=True)
    with pytest.raises(TypeError, match=r"Hands hands its \*\*kwargs, takes no 'x'. It is from the checkpoint"):
        Hands.load_from_checkpoint(save(nn.Identity(), path, hyper_parameters={"width": 3, "x": 1}))
    with pytest.raises(CheckpointError, match=r"Model.__init__, to which Hands .* needs width.*holds no hyperparam"):
        Hands.load_from_checkpoint(save(nn.Identity(), path))


def test_a_missing_hyperparameter_is_named_with_how_to_pass_it(path):
    CheckpointIO().save_checkpoint({"state_dict": Model(3).state_dict()}, path)
    with pytest.raises(CheckpointError, match=r"needs width.*save_hyperparameters\(\).*\(path, width=\.\.\.\)"):
        Model.load_from_checkpoint(path)
    assert Model.load_from_checkpoint(path, width=3).layer.in_features == 3


class WithModule(LightningModule):
    def __init__(self, backbone, act=nn.ReLU):
        super().__init__()
        self.save_hyperparameters()
        self.backbone = backbone


@pytest.mark.filterwarnings("ignore:WithModule")
def test_what_was_saved_by_name_must_be_given_again(path):
    backbone = nn.Linear(2, 2)
    save(WithModule(backbone), path)
    with pytest.raises(CheckpointError, match=r"backbone \(saved by name only: torch.nn.modules.linear.Linear\)"):
        WithModule.load_from_checkpoint(path)
    loaded = WithModule.load_from_checkpoint(path, backbone=nn.Linear(2, 2))
    assert torch.equal(loaded.backbone.weight, backbone.weight)
    assert loaded.hparams.act is nn.ReLU


def test_a_file_of_a_module_that_saved_hyperparameters_does_not_ask_for_that(path):
    class OfAnObject(LightningModule):
        def __init__(self, encoder):
            super().__init__()

    torch.save({"state_dict": {}, "hyper_parameters": {}, "hparams_by_name": {"encoder": "a.B"}}, path)
    with pytest.raises(CheckpointError, match=r"by name only: a\.B\), which the checkpoint does not hold\. Pass it"):
        OfAnObject.load_from_checkpoint(path)
    torch.save({"state_dict": {}}, path)
    with pytest.raises(CheckpointError, match=r"holds no hyperparameters: save_hyperparameters\(\) .*LT660"):
        OfAnObject.load_from_checkpoint(path)


@pytest.mark.filterwarnings("ignore:WithModule")
def test_a_default_that_stands_for_something_saved_by_name_is_told(path):
    class Default(LightningModule):
        def __init__(self, act=nn.ReLU):
            super().__init__()
            self.save_hyperparameters()

    Default.load_from_checkpoint(save(Default(), path))
    with pytest.warns(UserWarning, match="plain data"):
        save(Default(nn.GELU), path)
    with pytest.warns(UserWarning, match=r"act was saved by name only \(torch.*GELU\).*ReLU.*act=\.\.\."):
        Default.load_from_checkpoint(path)


class Mode(enum.Enum):
    FAST = 1
    SLOW = 2


@dataclass
class Inner:
    path: Path
    mode: Mode = Mode.FAST


class Annotated(LightningModule):
    def __init__(
        self,
        mode: Mode,
        folder: Path,
        inner: Inner,
        maybe: Path | None,
        conf=None,
        plain: dict[str, int] | None = None,
        space: Namespace | None = None,
    ):
        super().__init__()
        self.save_hyperparameters()


def test_enums_paths_and_dataclasses_come_back_where_annotations_ask_for_them(path):
    inner = Inner(Path("x"), Mode.SLOW)
    conf = Namespace(lr=1, deep=[Namespace(x=2)])
    model = Annotated(Mode.SLOW, Path("a"), inner, Path("b"), conf=conf, plain={"k": 1}, space=conf)
    loaded = Annotated.load_from_checkpoint(save(model, path))
    assert (loaded.hparams.mode, loaded.hparams.folder, loaded.hparams.inner) == (Mode.SLOW, Path("a"), inner)
    assert loaded.hparams.maybe == Path("b")
    assert (loaded.hparams.conf.lr, loaded.hparams.conf.deep[0].x) == (1, 2)
    assert type(loaded.hparams.space) is Namespace
    assert type(loaded.hparams.plain) is dict


class Unannotated(LightningModule):
    def __init__(self, value, act=Mode.FAST):
        super().__init__()
        self.save_hyperparameters()


@pytest.mark.parametrize(
    "value",
    [
        Path("a/b"),
        PureWindowsPath("a"),
        frozenset({1, (2, 3)}),
        {(1, 2)},
        OrderedDict(b=1, a=Path("x")),
        [{"deep": (Path("x"), 1)}],
        {(1, 2): frozenset("ab")},
    ],
    ids=["path", "windows", "frozenset", "set", "ordered", "deep", "keys"],  # a set has another order in each process
)
def test_paths_frozensets_and_ordered_dicts_come_back_as_they_were(path, value):
    loaded = Unannotated.load_from_checkpoint(save(Unannotated(value), path)).hparams.value
    assert loaded == value
    assert type(loaded) is type(value) or isinstance(loaded, dict)
    assert isinstance(loaded, OrderedDict) == isinstance(value, OrderedDict)


@pytest.mark.parametrize(
    "value", [Mode.SLOW, [Mode.SLOW], Inner(Path("x")), defaultdict(int)], ids=["enum", "list", "dataclass", "dict"]
)
def test_what_the_file_cannot_give_back_has_to_be_given_again(path, value):
    with pytest.warns(UserWarning, match="LT651"):
        save(Unannotated(value), path)
    with pytest.raises(CheckpointError, match=r"needs value \(saved by name only"):
        Unannotated.load_from_checkpoint(path)
    with pytest.warns(UserWarning, match="LT651"):
        assert Unannotated.load_from_checkpoint(path, value=value).hparams.value is value


def test_a_default_stands_for_a_saved_enum_member_only_where_it_is_the_same_one(path, recwarn):
    assert Unannotated.load_from_checkpoint(save(Unannotated(1, Mode.FAST), path)).hparams.act is Mode.FAST
    assert not recwarn
    with pytest.warns(UserWarning, match="LT651"):
        save(Unannotated(1, Mode.SLOW), path)
    with pytest.warns(UserWarning, match=r"act was saved by name only \(SLOW\).*LT665"):
        Unannotated.load_from_checkpoint(path)


@pytest.mark.parametrize("types", [3, {"Path": 3}, {"Path": [3, [[]], [{}]]}, {"os.system": [["value"]]}], ids=repr)
def test_senseless_types_beside_the_hyperparameters_change_nothing(path, types):
    save(Unannotated("a"), path)
    tree = torch.load(path)
    tree.update(hparams_types=types, hparams_arrays=types)
    torch.save(tree, path)
    assert Unannotated.load_from_checkpoint(path).hparams.value == "a"


class OneObject(LightningModule):
    def __init__(self, conf, more=1):
        super().__init__()
        self.save_hyperparameters(conf)
        self.layer = nn.Linear(conf.width, 1)


def test_a_namespace_comes_back_as_one_object_and_keywords_reach_into_it(path):
    save(OneObject(Namespace(width=3, lr=0.1)), path)
    assert OneObject.load_from_checkpoint(path).hparams == {"width": 3, "lr": 0.1}
    assert OneObject.load_from_checkpoint(path, lr=5, more=2).hparams.lr == 5
    assert OneObject.load_from_checkpoint(path, conf=Namespace(width=3)).hparams == {"width": 3}


class TakesAll(LightningModule):
    def __init__(self, a, **kwargs):
        super().__init__()
        self.save_hyperparameters()


def test_kwargs_come_back(path):
    assert TakesAll.load_from_checkpoint(save(TakesAll(1, b=2), path), c=3).hparams == {"a": 1, "b": 2, "c": 3}


def test_hyperparameters_that_init_no_longer_takes_are_left_out(path):
    class Newer(LightningModule):
        def __init__(self, width):
            super().__init__()
            self.save_hyperparameters()
            self.layer = nn.Linear(width, 2)

    assert Newer.load_from_checkpoint(save(Model(3), path)).hparams == {"width": 3}


def test_a_value_that_nearly_fits_a_parameter_of_another_name_is_told(path):
    class Renamed(LightningModule):
        def __init__(self, width, with_bias=True):
            super().__init__()
            self.save_hyperparameters()
            self.layer = nn.Linear(width, 2)

    with pytest.warns(UserWarning, match=r"bias=True.*'with_bias', which keeps its default.*LT517") as told:
        Renamed.load_from_checkpoint(save(Model(3), path))
    Renamed.load_from_checkpoint(path, with_bias=False)
    assert len(told) == 1


def test_an_instantiator_is_understood_and_nothing_is_called(path):
    state = Model(3).state_dict()
    hparams = {"width": 3, "_instantiator": "os.system"}
    CheckpointIO().save_checkpoint({"state_dict": state, "hyper_parameters": hparams}, path)
    assert "_instantiator" not in Model.load_from_checkpoint(path).hparams


def test_hooks_see_the_checkpoint_before_the_weights_are_loaded(path):
    class Hooked(Model):
        def configure_model(self):
            self.extra = nn.Linear(1, 1)

        def on_load_checkpoint(self, checkpoint):
            self.note = checkpoint["note"]
            checkpoint["state_dict"]["extra.bias"] = torch.tensor([5.0])
            checkpoint["state_dict"]["extra.weight"] = torch.tensor([[5.0]])

    save(Model(3), path, note="seen")
    loaded = Hooked.load_from_checkpoint(path)
    assert loaded.note == "seen"
    assert loaded.extra.bias.item() == 5


def test_a_file_without_weights_says_what_it_holds(path):
    CheckpointIO().save_checkpoint({"layer.weight": torch.ones(1)}, path)
    with pytest.raises(CheckpointError, match="no key 'state_dict', but 'layer.weight'"):
        Model.load_from_checkpoint(path, width=1)


# ---- weights -------------------------------------------------------------------------------------------------------


def test_wrongly_shaped_weights_are_listed_and_nothing_is_loaded(path):
    save(Model(3), path)
    model = Model(4)
    before = model.layer.bias.clone()
    with pytest.raises(CheckpointError, match=r"layer.weight: \(2, 3\) in the file, \(2, 4\) in the module"):
        load_state_dict_strictly(model, torch.load(path, weights_only=True)["state_dict"], path)
    assert torch.equal(model.layer.bias, before)
    with pytest.raises(CheckpointError, match=r"1 wrongly shaped"):
        Model.load_from_checkpoint(path, width=4)


def test_wrong_shapes_missing_and_unknown_keys_are_told_together(path):
    state = {"layer.weight": torch.ones(9, 9), "other": torch.ones(1)}
    with pytest.raises(CheckpointError, match=r"(?s)1 wrongly.*1 missing.*layer\.bias.*1 unknown.*other"):
        load_state_dict_strictly(Model(4), state, path)


def test_missing_and_unknown_weights_are_listed_with_the_nearest_names(path):
    state = {f"model.{key}": value for key, value in Model(3).state_dict().items()}
    CheckpointIO().save_checkpoint({"state_dict": state, "hyper_parameters": {"width": 3}}, path)
    with pytest.raises(CheckpointError) as caught:
        Model.load_from_checkpoint(path)
    text = str(caught.value)
    assert "2 missing in the file" in text
    assert "layer.weight (nearest in the file: model.layer.weight)" in text
    assert "2 unknown to the module" in text
    assert str(path) in text


def test_not_strict_warns_and_loads_what_fits(path):
    save(Model(3, bias=False), path)
    with pytest.warns(UserWarning, match=r"layer\.bias"):
        loaded = Model.load_from_checkpoint(path, strict=False, bias=True)
    assert loaded.layer.bias is not None


def test_a_module_that_is_not_strict_by_itself_warns(path):
    class Loose(Model):
        strict_loading = False

    save(Model(3, bias=False), path)
    with pytest.warns(UserWarning, match=r"layer\.bias"):
        Loose.load_from_checkpoint(path, bias=True)
    with pytest.raises(CheckpointError):
        Loose.load_from_checkpoint(path, strict=True, bias=True)


def test_what_was_left_out_on_purpose_may_be_missing(path):
    model = Model(3)
    state = model.state_dict()
    del state["layer.bias"]
    CheckpointIO().save_checkpoint({"state_dict": state, "left_out": ["layer.bias"], **saved_hparams(model)}, path)
    Model.load_from_checkpoint(path)


def test_long_lists_are_cut(path):
    class Deep(LightningModule):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(1, 1) for _ in range(30))

    CheckpointIO().save_checkpoint({"state_dict": {}}, path)
    with pytest.raises(CheckpointError, match="60 missing in the file"):
        Deep.load_from_checkpoint(path)


def test_a_module_with_its_own_loading_decides_itself(path):
    class Own(Model):
        def load_state_dict(self, state_dict, strict=True, assign=False):
            return super().load_state_dict({k: v[..., :3] if v.dim() == 2 else v for k, v in state_dict.items()})

    save(Model(5), path)
    assert Own.load_from_checkpoint(path, width=3).layer.in_features == 3


# ---- datamodules and files of hyperparameters ----------------------------------------------------------------------


class Data(HyperparametersMixin, DataSource):
    def __init__(self, folder, batch_size=1):
        self.save_hyperparameters()
        self.state = None

    def load_state_dict(self, state):
        self.state = state


def test_a_datamodule_comes_back_with_its_own_hyperparameters_and_state(path):
    save(Model(3), path, **saved_hparams(Data("x", 4), "datamodule_"), Data={"seen": 5})
    loaded = load_from_checkpoint(Data, path)
    assert loaded.hparams == {"folder": "x", "batch_size": 4}
    assert loaded.state == {"seen": 5}


def test_urls_can_be_loaded_from():
    pytest.importorskip("fsspec")
    pytest.importorskip("lt_checkpoint", reason="URLs come with lt-checkpoint")
    save(Model(3), "memory://run/a.ckpt")
    assert Model.load_from_checkpoint("memory://run/a.ckpt").hparams.width == 3


def test_loading_from_an_object_is_an_error_as_it_would_load_nothing_into_it(path):
    model = Model(3)
    save(model, path)
    with pytest.raises(ConfigError, match=r"makes a new one. Write model = Model\.load_from_checkpoint\(path\).*LT608"):
        model.load_from_checkpoint(path)
    assert isinstance(type(model).load_from_checkpoint(path), Model)


def test_a_class_method_of_a_subclass_reaches_it_by_super(path):
    class Child(Model):
        @classmethod
        def load_from_checkpoint(cls, path):
            return super().load_from_checkpoint(path)

    assert isinstance(Child.load_from_checkpoint(save(Child(3), path)), Child)


class Normed(LightningModule):
    def __init__(self, mean, tables=(), scale=None):
        super().__init__()
        self.save_hyperparameters()


def test_tensors_and_arrays_come_back_as_what_they_were(path):
    numpy = pytest.importorskip("numpy")
    readonly = numpy.arange(40000.0).reshape(200, 200)
    readonly.flags.writeable = False
    given = Normed(readonly, ({"a": numpy.eye(2, dtype="float32")}, [1]), torch.ones(2, dtype=torch.bfloat16))
    save(given, path)
    torch.load(path, weights_only=True)
    loaded = Normed.load_from_checkpoint(path)
    assert isinstance(loaded.hparams.mean, numpy.ndarray)
    assert (loaded.hparams.mean * 2 == readonly * 2).all()
    assert loaded.hparams.tables[0]["a"].dtype == "float32"
    assert loaded.hparams.tables[1] == [1]
    assert torch.equal(loaded.hparams.scale, given.hparams.scale)
    assert loaded.hparams.scale.dtype == torch.bfloat16


def test_an_array_that_a_hook_adds_comes_back_too(path):
    numpy = pytest.importorskip("numpy")
    tree = {"state_dict": {}, "hyper_parameters": {"mean": numpy.ones(2)}, "hparams_name": "kwargs"}
    settle_hparams(tree, Normed(1))
    CheckpointIO().save_checkpoint(tree, path)
    assert isinstance(Normed.load_from_checkpoint(path).hparams.mean, numpy.ndarray)


# ---- omegaconf -------------------------------------------------------------------------------------------------------


class Configured(LightningModule):
    def __init__(self, cfg, sizes=()):
        super().__init__()
        self.save_hyperparameters()


class ConfiguredWhole(LightningModule):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.save_hyperparameters(cfg)


def make_config(**more):
    conf = pytest.importorskip("omegaconf").OmegaConf
    return conf.create({"width": 3, "net": {"deep": "${width}", "names": ["a", "b"]}, **more})


def test_configs_of_omegaconf_come_back_as_what_they_were(path):
    config = make_config()
    model = Configured(config, config.net.names)
    assert type(model.hparams.cfg) is type(model.hparams_initial["cfg"]) is type(config)
    loaded = Configured.load_from_checkpoint(save(model, path))
    assert type(loaded.hparams.cfg) is type(config)
    assert type(loaded.hparams.sizes) is type(config.net.names)
    assert loaded.hparams.cfg == make_config(net={"deep": 3, "names": ["a", "b"]})


def test_a_config_that_holds_all_hyperparameters_comes_back_too(path):
    config = make_config()
    loaded = ConfiguredWhole.load_from_checkpoint(save(ConfiguredWhole(config), path), width=4)
    assert type(loaded.cfg) is type(config)
    assert (loaded.cfg.width, loaded.cfg.net.deep) == (4, 3)


def test_a_config_that_holds_all_hyperparameters_is_them(path):
    config = make_config()
    conf = pytest.importorskip("omegaconf").OmegaConf
    conf.set_struct(config, True)
    model = ConfiguredWhole(config)
    assert model.hparams is config
    assert conf.to_yaml(model.hparams) == conf.to_yaml(config)
    model.hparams.width = 5
    loaded = ConfiguredWhole.load_from_checkpoint(save(model, path))
    assert type(loaded.hparams) is type(config)
    assert (loaded.hparams.width, loaded.hparams.net.deep, model.hparams_initial["width"]) == (5, 5, 3)


def test_a_config_and_more_are_kept_side_by_side(path):
    class Child(ConfiguredWhole):
        def __init__(self, cfg, depth=2):
            super().__init__(cfg)
            self.save_hyperparameters("depth")

    model = Child(make_config())
    assert (model.hparams.width, model.hparams.depth) == (3, 2)
    model = ConfiguredWhole(make_config())
    model.save_hyperparameters(make_config(lr=0.1), ignore="width")
    assert "width" not in model.hparams
    assert model.hparams.lr == 0.1


@pytest.mark.parametrize("text", ["${run:1}", r"\${run:1}", r"\\${run:1}", "a${run:1}b", "${width}"])
def test_no_text_of_a_file_becomes_an_interpolation(path, text):
    conf = pytest.importorskip("omegaconf").OmegaConf
    ran = []
    register = getattr(conf, "register_resolver", None) or conf.register_new_resolver
    register("run", ran.append, replace=True)
    hostile = {"hyper_parameters": {"cfg": {"x": text}}, "hparams_name": "kwargs"}
    types = {"hparams_types": {"DictConfig": [["cfg"]]}}
    CheckpointIO().save_checkpoint({"state_dict": {}, **hostile, **types}, path)
    assert Configured.load_from_checkpoint(path).hparams.cfg.x == text
    assert not ran


def test_control_characters_of_a_file_do_not_reach_the_terminal(path):
    CheckpointIO().save_checkpoint({"state_dict": {"\x1b]0;owned\x07weight\u202e": torch.ones(1)}}, path)
    with pytest.raises(CheckpointError, match=r"LT662") as told:
        Model.load_from_checkpoint(path, width=3)
    assert r"\x1b]0;owned\x07weight\u202e" in str(told.value)
    assert "\x1b" not in str(told.value)


@pytest.mark.parametrize("key", ["hparams", "module_arguments", "hyper_parameters"])
@pytest.mark.parametrize("kind", [dict, Namespace])
def test_the_values_of_a_file_from_before_1_0_are_not_the_defaults(kind, key, tmp_path):
    class Wide(LightningModule):
        def __init__(self, width=2):
            super().__init__()
            self.layer = nn.Linear(width, 2)

    if kind is Namespace:
        pytest.importorskip("lt_checkpoint", reason="torch's own reader refuses the class")
    torch.save({"state_dict": Wide(3).state_dict(), key: kind(width=3)}, tmp_path / "old.ckpt")
    loaded = Wide.load_from_checkpoint(tmp_path / "old.ckpt")
    assert loaded.layer.in_features == 3


def test_hyperparameters_of_today_go_before_older_ones_of_the_same_file(tmp_path):
    class Wide(LightningModule):
        def __init__(self, width=2, depth=1):
            super().__init__()
            self.sizes = width, depth

    old = {"hparams": {"width": 9, "depth": 4}, "hyper_parameters": {"width": 3}, "state_dict": {}}
    torch.save(old, tmp_path / "old.ckpt")
    assert Wide.load_from_checkpoint(tmp_path / "old.ckpt").sizes == (3, 4)
