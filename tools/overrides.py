"""Subclass each class of Lightning that is meant for it, override every member, and see which ones small runs call.

uv run python tools/overrides.py --record            writes the record, in a throw-away environment with Lightning
python -m lt.compat tools/overrides.py               prints by class what lt's answer to its name calls
python tools/overrides.py --root lt [CLASS]...       the same for lt's own class of each name, or of these

The overrides call the parent's member and count. The runs: fit, save, validate, test, predict, a fit that resumes, a
fit that fails. tests/integration/test_overrides.py compares what lt calls with the record, overrides.json beside it.
"""

import argparse
import functools
import inspect
import json
import logging
import os
import subprocess
import sys
import tempfile
import traceback
import warnings
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from types import FunctionType
from typing import Any

ROOT = Path(__file__).parent.parent
OVERRIDES = ROOT / "tests" / "integration" / "overrides.json"
BESIDE = ("lightning==2.6.6", "torch==2.13.*", "tensorboard", "rich", "psutil", "jsonargparse[signatures]")
PRIVATE = {
    "EarlyStopping": ["_evaluate_stopping_criteria", "_run_early_stopping_check", "_should_skip_check"],
    "ModelCheckpoint": [
        "_format_checkpoint_name",
        "_monitor_candidates",
        "_remove_checkpoint",
        "_save_checkpoint",
        "_save_last_checkpoint",
        "_save_topk_checkpoint",
        "_should_skip_saving_checkpoint",
    ],
}
"""Private members that published code overrides."""

UNTOUCHED = frozenset({"add_module", "apply", "register_buffer", "register_module", "register_parameter"})


@dataclass
class Seen:
    """What the runs of one class did.

    Attributes:
        called: members whose override was called.
        kinds: of all members: ``method``, ``property``, ``class``, ``static``.
        parameters: by method, as ``inspect`` prints them.
        unfit: calls whose arguments an override with these parameters could not have taken.
        errors: of the runs, by their names.
        refused: members whose override ends in an error that names it (LT692), in place of being called.
        as_recorded: whether overrides show the parameters that Lightning's members have.
    """

    called: set[str] = field(default_factory=set)
    kinds: dict[str, str] = field(default_factory=dict)
    parameters: dict[str, list[list[Any]]] = field(default_factory=dict)
    unfit: dict[str, str] = field(default_factory=dict)
    errors: dict[str, str] = field(default_factory=dict)
    refused: list[str] = field(default_factory=list)
    as_recorded: bool = False


class BoomError(Exception):
    """Ends the fit that fails."""


# ---- the classes -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """One class, and how a run gets an object of it.

    Attributes:
        place: the module below the root, and the name.
        goes: where the object goes: an argument of the Trainer, ``module``, ``data``, ``trainer`` or ``cli``.
        arguments: of the class; of a folder.
        own: members without which there is no object of it.
        beside: further arguments of the Trainer.
    """

    place: str
    goes: str
    arguments: Callable[[str], dict[str, Any]] = lambda folder: {}
    own: Callable[[], dict[str, Any]] = dict
    beside: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.place.partition(":")[2]


def _callback(name: str, arguments: Callable[[str], dict[str, Any]] = lambda folder: {}, **more: Any) -> Case:
    return Case(f"callbacks:{name}", "callbacks", arguments, **more)


def _logger_members() -> dict[str, Any]:
    return {
        "name": property(lambda self: "mine"),
        "version": property(lambda self: 0),
        "log_metrics": lambda self, metrics, step=None: None,
        "log_hyperparams": lambda self, params, *given, **named: None,
    }


def _finetuning_members() -> dict[str, Any]:
    def freeze_before_training(self: Any, pl_module: Any) -> None:
        self.freeze(pl_module.layer)

    def finetune_function(self: Any, pl_module: Any, epoch: int, optimizer: Any) -> None:
        if epoch == 1:
            self.unfreeze_and_add_param_group(pl_module.layer, optimizer)

    return {"freeze_before_training": freeze_before_training, "finetune_function": finetune_function}


CASES = [
    Case(":LightningModule", "module"),
    Case(":LightningDataModule", "data"),
    Case(":Trainer", "trainer"),
    _callback("Callback"),
    _callback("BackboneFinetuning", lambda folder: {"unfreeze_backbone_at_epoch": 1}),
    _callback("BaseFinetuning", own=_finetuning_members),
    _callback("BasePredictionWriter", lambda folder: {"write_interval": "batch_and_epoch"}),
    _callback(
        "DeviceStatsMonitor", lambda folder: {"cpu_stats": True}, beside={"logger": "csv", "log_every_n_steps": 1}
    ),
    _callback("EarlyStopping", lambda folder: {"monitor": "val_loss"}),
    _callback("EMAWeightAveraging"),
    _callback("GradientAccumulationScheduler", lambda folder: {"scheduling": {0: 1, 1: 2}}),
    _callback("LambdaCallback", lambda folder: {"on_train_start": lambda trainer, module: None}),
    _callback("LearningRateFinder", lambda folder: {"num_training_steps": 5}),
    _callback("LearningRateMonitor", beside={"logger": "csv", "log_every_n_steps": 1}),
    _callback(
        "ModelCheckpoint",
        lambda folder: {
            "dirpath": f"{folder}/kept",
            "filename": "{epoch}-{val_loss:.2f}",
            "monitor": "val_loss",
            "save_top_k": 1,
            "save_last": True,
        },
    ),
    _callback("ModelPruning", lambda folder: {"pruning_fn": "l1_unstructured", "amount": 0.5}),
    _callback("ModelSummary"),
    _callback("OnExceptionCheckpoint", lambda folder: {"dirpath": f"{folder}/broken"}),
    _callback("ProgressBar"),
    _callback("RichModelSummary"),
    _callback("RichProgressBar"),
    _callback("StochasticWeightAveraging", lambda folder: {"swa_lrs": 0.01, "swa_epoch_start": 1}),
    _callback("TQDMProgressBar"),
    _callback("Timer", lambda folder: {"duration": "00:01:00:00"}),
    _callback("WeightAveraging"),
    Case("loggers.logger:Logger", "logger", own=_logger_members),
    Case("loggers:CSVLogger", "logger", lambda folder: {"save_dir": folder}),
    Case("loggers:TensorBoardLogger", "logger", lambda folder: {"save_dir": folder, "log_graph": True}),
    Case("plugins.precision:Precision", "plugins"),
    Case("plugins.precision:MixedPrecision", "plugins", lambda folder: {"precision": "bf16-mixed", "device": "cpu"}),
    Case("plugins.precision:DoublePrecision", "plugins"),
    Case("plugins.precision:HalfPrecision", "plugins", lambda folder: {"precision": "bf16-true"}),
    Case("strategies:SingleDeviceStrategy", "strategy", lambda folder: {"device": "cpu"}),
    Case("strategies:DDPStrategy", "strategy"),
    Case("accelerators:CPUAccelerator", "accelerator"),
    Case(
        "profilers:Profiler",
        "profiler",
        own=lambda: {"start": lambda self, action_name: None, "stop": lambda self, action_name: None},
    ),
    Case("profilers:SimpleProfiler", "profiler", lambda folder: {"dirpath": folder, "filename": "simple"}),
    Case("profilers:AdvancedProfiler", "profiler", lambda folder: {"dirpath": folder, "filename": "advanced"}),
    Case("profilers:PyTorchProfiler", "profiler", lambda folder: {"dirpath": folder, "filename": "torch"}),
    Case("plugins.io:TorchCheckpointIO", "plugins"),
    Case("plugins.io:AsyncCheckpointIO", "plugins"),
    Case("plugins.environments:LightningEnvironment", "plugins"),
    Case("cli:LightningCLI", "cli"),
]


# ---- overriding ------------------------------------------------------------------------------------------------------


_MADE: dict[Any, Any] = {}
"""By class, the one with overrides."""


def members_of(base: type) -> dict[str, str]:
    """Return the public members that Lightning defines for a class, and the private ones that are overridden."""
    found: dict[str, str] = {}
    kinds = {FunctionType: "method", property: "property", classmethod: "class", staticmethod: "static"}
    for owner in base.__mro__:
        for name, value in vars(owner).items() if "lightning" in owner.__module__ else ():
            kind = kinds.get(type(value)) or ("method" if hasattr(value, "__wrapped__") else None)
            public = not name.startswith("_") or name in PRIVATE.get(base.__name__, ())
            if kind and public and name not in UNTOUCHED:
                found.setdefault(name, kind)
    return found


def parameters_of(base: type, name: str) -> list[list[Any]]:
    """Return name, kind and whether there is a default, of each parameter behind ``self``."""
    with suppress(ValueError, TypeError):
        shown = [*inspect.signature(getattr(base, name)).parameters.values()]
        bound = isinstance(inspect.getattr_static(base, name), classmethod | staticmethod)
        return [[p.name, int(p.kind), p.default is not p.empty] for p in (shown if bound else shown[1:])]
    return []


def refused_by_lt(base: type) -> set[str]:
    """Return members that lt.compat does not take."""
    if "lt_compat" not in sys.modules:
        return set()
    from lt_compat.lightning.overridden import refused_members

    return {*refused_members(base)}


def overriding(base: Any, seen: Seen, names: set[str]) -> Any:
    """Return a subclass with an override of each of these members."""
    own: dict[str, Any] = {}
    for name, kind in seen.kinds.items():
        if name not in names:
            continue
        parent = inspect.getattr_static(base, name, None)
        if kind == "property":
            own[name] = _property(name, base, seen)
        elif kind in ("class", "static"):
            own[name] = _of_class(name, kind, base, seen)
        else:
            function = _method(name, base, seen)
            plain = parent if isinstance(parent, FunctionType) or hasattr(parent, "__wrapped__") else None
            own[name] = function if plain is None else functools.wraps(plain)(function)
            if name in seen.parameters and seen.as_recorded:  # lt looks which arguments an override takes
                first = inspect.Parameter("self", inspect.Parameter.POSITIONAL_OR_KEYWORD)
                function.__signature__ = inspect.Signature([first, *_parameters(seen.parameters[name])])  # type: ignore[attr-defined]
    _MADE[base] = type(f"My{base.__name__}", (base,), {**own, "__module__": __name__})
    return _MADE[base]


def _parameters(shown: list[list[Any]]) -> list[inspect.Parameter]:
    default: Any = None
    return [
        inspect.Parameter(key, inspect._ParameterKind(kind), **({"default": default} if has else {}))
        for key, kind, has in shown
    ]


def _note(seen: Seen, name: str, given: tuple[Any, ...], named: dict[str, Any]) -> None:
    seen.called.add(name)
    shown = seen.parameters.get(name)
    if shown is None:
        return
    try:
        inspect.Signature(_parameters(shown)).bind(*given, **named)
    except TypeError as error:
        seen.unfit[name] = str(error)


def _method(name: str, base: Any, seen: Seen) -> Callable[..., Any]:
    def override(self: Any, *given: Any, **named: Any) -> Any:
        _note(seen, name, given, named)
        parent = getattr(super(_MADE[base], self), name, None)
        return parent(*given, **named) if callable(parent) else None

    override.__name__ = name
    return override


def _property(name: str, base: Any, seen: Seen) -> property:
    def read(self: Any) -> Any:
        seen.called.add(name)
        kept = f"kept_{name}"
        if kept in vars(self):
            return vars(self)[kept]
        found = getattr(super(_MADE[base], self), name)
        return found() if inspect.ismethod(found) else found

    def write(self: Any, value: Any) -> None:
        parent = inspect.getattr_static(base, name, None)
        if isinstance(parent, property):
            parent.__set__(self, value)
        else:
            vars(self)[f"kept_{name}"] = value

    return property(read, write)


def _of_class(name: str, kind: str, base: Any, seen: Seen) -> Any:
    def override(*given: Any, **named: Any) -> Any:
        seen.called.add(name)
        return getattr(base, name)(*given, **named)

    return staticmethod(override) if kind == "static" else classmethod(lambda cls, *a, **k: override(*a, **k))


# ---- the runs --------------------------------------------------------------------------------------------------------


def look_up(root: str, place: str) -> Any:
    """Return a class by its place below the root."""
    below, _, name = place.partition(":")
    return getattr(import_module(f"{root}.{below}" if below else root), name)


def module_class(root: str) -> Any:
    """Return a module with two layers that logs."""
    import torch

    class Net(look_up(root, ":LightningModule")):  # type: ignore[misc]
        def __init__(self, width: int = 4) -> None:
            super().__init__()
            self.save_hyperparameters()
            self.backbone = torch.nn.Linear(4, width)
            self.layer = torch.nn.Linear(width, 1)
            self.broken = False
            self.lr = 0.01
            self.example_input_array = torch.ones(1, 4)

        def forward(self, x: Any) -> Any:
            return self.layer(self.backbone(x))

        def _loss(self, batch: Any, name: str) -> Any:
            loss = self(batch).pow(2).mean()
            self.log(name, loss, prog_bar=True)
            return loss

        def training_step(self, batch: Any, batch_idx: int) -> Any:
            if self.broken:
                raise BoomError
            return self._loss(batch, "loss")

        def validation_step(self, batch: Any, batch_idx: int) -> Any:
            return self._loss(batch, "val_loss")

        def test_step(self, batch: Any, batch_idx: int) -> Any:
            return self._loss(batch, "test_loss")

        def predict_step(self, batch: Any, batch_idx: int) -> Any:
            return self(batch)

        def configure_optimizers(self) -> Any:
            parameters = [parameter for parameter in self.parameters() if parameter.requires_grad]
            optimizer = torch.optim.SGD(parameters, lr=self.lr)
            return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 1)}

        def train_dataloader(self) -> Any:
            return _loader()

        def val_dataloader(self) -> Any:
            return _loader()

        def test_dataloader(self) -> Any:
            return _loader()

        def predict_dataloader(self) -> Any:
            return _loader()

    return Net


def _loader() -> Any:
    import torch

    samples: Any = torch.arange(32.0).reshape(8, 4) / 32
    return torch.utils.data.DataLoader(samples, batch_size=2)


def data_class(root: str) -> Any:
    """Return a datamodule with all loaders."""

    class Data(look_up(root, ":LightningDataModule")):  # type: ignore[misc]
        def train_dataloader(self) -> Any:
            return _loader()

        val_dataloader = test_dataloader = predict_dataloader = train_dataloader

    return Data


def run_case(root: str, case: Case, seen: Seen) -> None:
    """Run all runs with objects of an overriding class."""
    with tempfile.TemporaryDirectory() as folder:
        where = Path.cwd()
        os.chdir(folder)
        try:
            _run_case(root, case, seen, folder)
        except Exception as error:
            seen.errors["class"] = _short(error)
        finally:
            os.chdir(where)


def _run_case(root: str, case: Case, seen: Seen, folder: str) -> None:
    parents: dict[str, Any] = {"module": module_class, "data": data_class}
    base = parents[case.goes](root) if case.goes in parents else look_up(root, case.place)
    if own := case.own():
        base = type(f"Own{base.__name__}", (base,), own)
    if not seen.kinds:
        seen.kinds = members_of(base)
        seen.parameters |= {name: parameters_of(base, name) for name, kind in seen.kinds.items() if kind == "method"}
    refused = refused_by_lt(base)
    kind = overriding(base, seen, {*seen.kinds} - refused)
    if case.goes == "cli":
        _run_cli(root, kind, seen, folder)
        return
    trainer_kind = kind if case.goes == "trainer" else look_up(root, ":Trainer")
    module_kind = kind if case.goes == "module" else module_class(root)

    def trainer(epochs: int = 2) -> Any:
        arguments: dict[str, Any] = {
            "max_epochs": epochs,
            "accelerator": "cpu",
            "devices": 1,
            "gradient_clip_val": 0.5,
            "logger": False,
            "enable_checkpointing": False,
            "enable_progress_bar": "ProgressBar" in case.name,
            "enable_model_summary": "Summary" in case.name,
            "num_sanity_val_steps": 1,
            "default_root_dir": folder,
            **case.beside,
        }
        if arguments["logger"] == "csv":
            arguments["logger"] = look_up(root, "loggers:CSVLogger")(folder)
        if case.goes not in ("module", "data", "trainer"):
            made = kind(**case.arguments(folder))
            arguments[case.goes] = [made] if case.goes in ("callbacks", "plugins") else made
        if case.goes == "callbacks" and "Checkpoint" in case.name:
            del arguments["enable_checkpointing"]
        if case.goes == "accelerator":
            del arguments["devices"]
        return trainer_kind(**arguments)

    def data() -> dict[str, Any]:
        return {"datamodule": kind()} if case.goes == "data" else {}

    def fit() -> None:
        made, module = trainer(), module_kind()
        made.fit(module, **data())
        made.save_checkpoint(f"{folder}/saved.ckpt")
        for name in ("validate", "test", "predict"):
            attempt(name, functools.partial(evaluate, made, name, module))

    def evaluate(made: Any, name: str, module: Any) -> None:
        getattr(made, name)(module, **data())

    def resume() -> None:
        trainer(3).fit(module_kind(), **data(), ckpt_path=f"{folder}/saved.ckpt", weights_only=False)

    def fail() -> None:
        module = module_kind()
        module.broken = True
        with suppress(BoomError):
            trainer().fit(module, **data())

    def attempt(name: str, action: Callable[[], Any]) -> None:
        try:
            action()
        except Exception as error:
            seen.errors[name] = _short(error)

    attempt("fit", fit)
    attempt("resume", resume)
    attempt("fail", fail)
    for name in sorted(refused & {*seen.kinds}):
        kind = overriding(base, seen, {name})
        try:
            trainer()
        except ValueError as error:
            if f"overrides {name}, " in str(error) and "LT692" in str(error):
                seen.refused.append(name)


def _run_cli(root: str, kind: Any, seen: Seen, folder: str) -> None:
    quiet = ["--trainer.logger=false", "--trainer.enable_progress_bar=false", "--trainer.accelerator=cpu"]
    for words in (["fit", "--trainer.max_epochs=1"], ["validate"], ["test"], ["predict"]):
        try:
            kind(
                module_class(root),
                data_class(root),
                args=[*words, *quiet, "--trainer.devices=1"],
                save_config_kwargs={"overwrite": True},
            )
        except (Exception, SystemExit) as error:
            seen.errors[words[0]] = _short(error)


def _short(error: BaseException) -> str:
    if os.environ.get("OVERRIDES_TRACE"):
        traceback.print_exception(error)
    return f"{type(error).__name__}: {error}"[:300]


# ---- the record ------------------------------------------------------------------------------------------------------


def observe(root: str, names: list[str], record: dict[str, Any]) -> dict[str, Any]:
    """Run the cases; return what each one's overrides were called for."""
    found = {}
    for case in CASES:
        if names and case.name not in names:
            continue
        known = record.get(case.name, {})
        seen = Seen(kinds=known.get("kinds", {}), parameters=known.get("parameters", {}), as_recorded=bool(known))
        run_case(root, case, seen)
        found[case.name] = {
            "kinds": dict(sorted(seen.kinds.items())),
            "called": sorted(seen.called),
            "parameters": {name: shown for name, shown in sorted(seen.parameters.items()) if name in seen.called},
            "unfit": seen.unfit,
            "refused": seen.refused,
            "errors": seen.errors,
        }
        print(case.name, len(seen.called), "of", len(seen.kinds), seen.errors or "", file=sys.stderr, flush=True)
    return found


def main() -> int:
    """Record, or observe and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="classes; all by default")
    parser.add_argument("--root", default="lightning.pytorch", help="the package whose classes are subclassed")
    parser.add_argument("--out", type=Path, help="a file for what was seen, in place of the output")
    parser.add_argument("--record", action="store_true", help="run on Lightning, write the record")
    chosen = parser.parse_args()
    if chosen.record:
        with tempfile.TemporaryDirectory() as folder:
            python = os.environ.get("LIGHTNING_PYTHON") or _environment(Path(folder))
            command = [python, __file__, *chosen.names, "--root", "lightning.pytorch", "--out", str(OVERRIDES)]
            return subprocess.run(command, check=False, env={**os.environ, "OVERRIDES_ANEW": "1"}).returncode
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    before = json.loads(OVERRIDES.read_text()) if OVERRIDES.exists() else {}
    anew = "OVERRIDES_ANEW" in os.environ
    found = observe(chosen.root, chosen.names, {} if anew else before)
    text = _text({**before, **found} if anew and chosen.names else found)
    chosen.out.write_text(text) if chosen.out else print(text)
    return 0


def _text(found: dict[str, Any]) -> str:
    """Return JSON with a line for each fact of each class."""

    def lines(facts: dict[str, Any]) -> str:
        return ",\n".join(f"  {json.dumps(fact)}: {json.dumps(known, sort_keys=True)}" for fact, known in facts.items())

    return (
        "{\n" + ",\n".join(f" {json.dumps(name)}: {{\n{lines(facts)}\n }}" for name, facts in found.items()) + "\n}\n"
    )


def _environment(folder: Path) -> str:
    uv = os.environ.get("UV", "uv")
    python = str(folder / "bin" / "python")
    for command in ([uv, "venv", "-q", str(folder)], [uv, "pip", "install", "-q", "--python", python, *BESIDE]):
        subprocess.run(command, check=True, cwd=folder)
    return python


if __name__ == "__main__":
    sys.exit(main())
