"""Runs the rows of rows.txt: on Lightning 2.6.6, where the outcome is recorded, and under lt.compat.

    python tests/integration/strictness/scripts.py lightning              # where Lightning 2.6.6 is installed
    python tests/integration/strictness/scripts.py warnings               # there too
    python -m lt.compat tests/integration/strictness/scripts.py compat FILE [ROW]...

rows.txt has, below each code of an error of lt, expressions of users' code that meet it; those below "usual" are right,
and the warnings that they give count nowhere.

The first writes lightning_2_6_6.json: for each row the error that was raised, or the warnings and the value, which is
numbers of the run, so that what is taken is seen to have the same effect. :mod:`test_strictness` compares.
The second prints what is wrong in warnings.txt: Lightning's warnings that are not listed, and rows without theirs.
"""

import ast
import contextlib
import io
import json
import logging
import os
import re
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import lightning.pytorch.callbacks as C
import lightning.pytorch.loggers as L
import lightning.pytorch.strategies as S
import torch
from lightning.pytorch.cli import LightningCLI
from lightning.pytorch.tuner import Tuner
from lightning.pytorch.utilities import CombinedLoader
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import OneCycleLR, ReduceLROnPlateau, StepLR
from torch.utils.data import DataLoader, TensorDataset


def rows_by_code() -> dict[str, list[str]]:
    """Return the rows of rows.txt."""
    found: dict[str, list[str]] = {}
    rows: list[str] = []
    for line in Path(__file__).with_name("rows.txt").read_text("utf-8").splitlines():
        if line.startswith(" "):
            rows.append(line.strip())
        else:
            rows = found[line] = []
    return found


HOW, *WORDS = sys.argv[1:]
sys.argv[1:] = []  # LightningCLI looks at them

ROWS = rows_by_code()
RECORDED = Path(__file__).with_name("lightning_2_6_6.json")
USED_IN_ROWS = (C, L, S, Tuner, CombinedLoader, Adam, OneCycleLR, ReduceLROnPlateau, StepLR)


class Net(pl.LightningModule):
    """A layer with all steps, which logs "loss" and "v"."""

    def __init__(self, width=1, scale=1.0):
        super().__init__()
        self.save_hyperparameters()
        torch.manual_seed(0)
        self.layer = nn.Linear(4, width)

    def forward(self, x):
        return self.layer(x)

    def loss(self, batch):
        return self.layer(batch[0]).pow(2).mean()

    def training_step(self, batch, batch_idx):
        self.log("loss", loss := self.loss(batch))
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("v", self.loss(batch))

    test_step = validation_step

    def predict_step(self, batch, batch_idx):
        return self.layer(batch[0])

    def configure_optimizers(self):
        return SGD(self.parameters(), 0.1)


class Data(pl.LightningDataModule):
    def train_dataloader(self):
        return loader()

    val_dataloader = test_dataloader = predict_dataloader = train_dataloader


class Manual(Net):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False

    def training_step(self, batch, batch_idx):
        optimizers = self.optimizers()
        for optimizer in optimizers if isinstance(optimizers, list) else [optimizers]:
            optimizer.zero_grad()
            self.manual_backward(self.loss(batch))
            optimizer.step()


class Stream(torch.utils.data.IterableDataset):
    def __init__(self, count=8):
        self.count = count

    def __iter__(self):
        for start in range(self.count):
            yield torch.full((4,), start / 8)


class Says(Stream):
    def __len__(self):
        return 8


class _Default:
    pass


QUIET = {
    "accelerator": "cpu",
    "max_epochs": 1,
    "log_every_n_steps": 1,
    **dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False),
}


def data(samples=8, width=4):
    x = torch.linspace(-1, 1, samples * width).reshape(samples, width)
    return TensorDataset(x)


def loader(samples=8, **arguments):
    return DataLoader(data(samples), **{"batch_size": 2, **arguments})


def net(base=None, /, **members):
    """Return a module whose class, or object where it is no method, has other members."""
    return type("Net", (base or Net,), members)()


def holding(module=None, **attributes):
    """Return a module or callback with attributes of the object."""
    module = module or Net()
    for name, value in attributes.items():
        setattr(module, name, value)
    return module


def returning(make, base=None):
    """Return a module whose ``configure_optimizers`` is ``make(module, optimizer)``."""
    return net(base, configure_optimizers=lambda self: make(self, SGD(self.parameters(), 0.1)))


def stepping(step, **members):
    return net(training_step=step, **members)


def trainer(**arguments):
    return pl.Trainer(**{**QUIET, **arguments})


def numbers(made, module):
    """Return numbers by which a run is known."""
    weights = sum(float(parameter.double().sum()) for parameter in module.parameters())
    logged = {name: round(float(value), 5) for name, value in made.callback_metrics.items()}
    return [round(weights, 5), made.global_step, dict(sorted(logged.items()))]


def fit(module=None, train=_Default, val=_Default, *, ckpt_path=None, datamodule=None, **arguments):
    made, module = trainer(**arguments), module or Net()
    if datamodule is None:
        train = loader() if train is _Default else train
        val = loader() if val is _Default else val
        made.fit(module, train, val, ckpt_path=ckpt_path)
    else:
        made.fit(module, *[one for one in (train, val) if one is not _Default], datamodule=datamodule)
    return numbers(made, getattr(module, "_orig_mod", module))


def callback(**members):
    return type("Own", (pl.Callback,), members)()


def run(stage, module=None, loaders=_Default, **arguments):
    made, module = trainer(), module or Net()
    loaders = loader() if loaders is _Default else loaders
    result = getattr(made, stage)(module, loaders, **arguments)
    return repr(result)[:200] if stage == "predict" else [{k: round(v, 5) for k, v in part.items()} for part in result]


def saved(module=None, path="made.ckpt", **arguments):
    """Return the path of a checkpoint of a fit."""
    made = trainer(**arguments)
    made.fit(module or Net(), loader(), loader())
    made.save_checkpoint(path)
    return path


def changed(change, **arguments):
    """Return the path of a checkpoint whose content was changed."""
    tree = torch.load(saved(**arguments), weights_only=False)
    change(tree)
    torch.save(tree, "changed.ckpt")
    return "changed.ckpt"


def middle(**arguments):
    """Return the path of a checkpoint of the middle of an epoch."""
    keep = C.ModelCheckpoint("middle", every_n_train_steps=2, save_top_k=1, filename="middle")
    fit(callbacks=keep, max_steps=2, **{**arguments, "enable_checkpointing": True})
    return "middle/middle.ckpt"


def cli(*words, model=None, **arguments):
    made = LightningCLI(
        model or Net,
        Data,
        args=[*words],
        trainer_defaults=QUIET,
        save_config_callback=None,
        seed_everything_default=False,
        **arguments,
    )
    return [*numbers(made.trainer, made.model), made.model.hparams.scale]


def logging_in(hook, *, on=None, **arguments):
    """Fit with a ``self.log`` in a hook."""

    def call(self, *given):
        self.log("x", 1.0, **arguments)

    return fit(net(**{hook: call}))


def logs(*given, **arguments):
    def step(self, batch, batch_idx):
        self.log(*given, **arguments)
        return self.loss(batch)

    return fit(stepping(step))


def setting(name, value, **arguments):
    """Set an attribute of a Trainer, and fit."""
    made, module = trainer(**arguments), Net()
    setattr(made, name, value)
    made.fit(module, loader(), loader())
    return numbers(made, module)


def log_to(logger, method, *given, **arguments):
    getattr(logger, method)(*given, **arguments)
    logger.save()
    return "logged"


def tried(make, check=lambda made: None):
    """Return whether something was made."""
    check(made := make())
    return type(made).__name__


def own_init(self):
    pl.LightningModule.__init__(self)
    self.save_hyperparameters("nope")


def clashing():
    module = Data()
    module.save_hyperparameters({"scale": 5.0})
    return module


def inference():
    module = net(
        test_step=lambda self, batch, i: setattr(self, "kept", self.layer(batch[0])) or None,
        training_step=lambda self, batch, i: (self.layer(batch[0]) * self.kept).mean(),
    )
    made = trainer()
    made.test(module, loader())
    made.fit(module, loader(), loader())
    return numbers(made, module)


def late_layers():
    def configure_model(self):
        self.calls = getattr(self, "calls", 0) + 1
        self.layer = nn.Linear(4, self.calls)

    module = net(configure_model=configure_model)
    made = trainer()
    made.fit(module, loader(), loader())
    made.test(module, loader())
    return numbers(made, module)


def twice(self, epoch, batch_idx, optimizer, optimizer_closure):
    optimizer.step(closure=optimizer_closure)
    optimizer_closure()


def keeping(self, batch, batch_idx):
    self.kept = getattr(self, "kept", 0) + self.loss(batch)
    return self.kept


def needing_closure(module):
    class Needs(SGD):
        def step(self, closure):
            return super().step(closure)

    return Needs(module.parameters(), 0.1)


def backwarded():
    module = Net()
    module.loss((torch.ones(2, 4),)).backward()
    return module


class OwnPlain:
    """A scheduler without states."""

    def __init__(self, optimizer):
        self.optimizer = optimizer

    def step(self, *given):
        pass


class Own(OwnPlain):
    """A scheduler that is not torch's."""

    def state_dict(self):
        return {}

    def load_state_dict(self, state):
        pass


def own_schedule(module):
    optimizer = SGD(module.parameters(), 0.1)
    return [optimizer], [Own(optimizer)]


def dies(index):
    os._exit(1)


def raises(self):
    raise RuntimeError("no data")


def reading(self, dataloader_iter):
    batch, _, _ = next(dataloader_iter)
    return self.loss(batch)


def trained():
    made = trainer()
    made.fit(Net(), loader(), loader())
    return made


def weights_only():
    trained().save_checkpoint("weights.ckpt", weights_only=True)
    return "weights.ckpt"


def needing():
    return type("Needs", (Net,), {"__init__": lambda self, needed: Net.__init__(self)})


def metric_of_several():
    from torchmetrics import Metric

    class Several(Metric):
        full_state_update = False

        def __init__(self):
            super().__init__()
            self.add_state("total", torch.zeros(()), "sum")

        def update(self, value):
            self.total += value

        def compute(self):
            return {"a": self.total, "b": self.total}

    def step(self, batch, batch_idx):
        self.metric(self.loss(batch))
        self.log("m", self.metric)
        return self.loss(batch)

    return holding(stepping(step), metric=Several())


def _line(message: object, folder: str) -> str:
    """Return the beginning of a message, and the code at its end, without what differs from run to run."""
    text = re.sub(r"0x[0-9a-f]+", "0x...", " ".join(str(message).replace(folder, ".").split()))
    code = re.search(r" \[LT\d+\]$", text)
    return text[:110] if code is None or len(text) <= 110 else f"{text[:100]}...{code[0]}"


def outcome(text: str) -> dict[str, Any]:
    """Return what a row did: the error, or the warnings and the value."""
    logging.disable(logging.CRITICAL)
    torch.manual_seed(1)
    with (
        tempfile.TemporaryDirectory() as folder,
        contextlib.chdir(folder),
        warnings.catch_warnings(record=True) as said,
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("always")
        try:
            value = eval(text, globals())
        except KeyboardInterrupt:
            raise
        except BaseException as error:
            names = [kind.__name__ for kind in type(error).__mro__]
            kinds = {"kinds": names} if HOW == "compat" else {}
            return {"error": f"{type(error).__name__}: {_line(error, folder)}", **kinds}
    told = dict.fromkeys(_line(one.message, folder) for one in said if "jsonargparse" not in one.category.__module__)
    try:
        json.dumps(value)
    except TypeError:
        value = type(value).__name__
    return {"warned": list(told), "value": value}


def _words(node: ast.expr) -> str:
    """Return a message, with {} for what it fills in."""
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _words(node.left) + _words(node.right)
    if isinstance(node, ast.Constant):
        return str(node.value)
    return "{}" if isinstance(node, ast.FormattedValue) else f"<{ast.unparse(node)}>"


def check_warnings() -> None:
    """Print the warnings in Lightning's sources that warnings.txt has not, and its rows that do not give theirs."""
    lines = Path(__file__).with_name("warnings.txt").read_text("utf-8").splitlines()
    listed = [line.strip() for line in lines if re.match(r" {4}\S", line)]
    root = Path(pl.__file__).parent
    for file in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            called = ast.unparse(node.func) if isinstance(node, ast.Call) else ""
            if re.fullmatch(r"rank_zero_(warn|deprecation)|warnings\.warn|.*warning_cache\.warn", called):
                text = f"{file.relative_to(root)}: {_words(node.args[0])}"
                if not any(text.startswith(one) for one in listed):
                    print("not listed:", text)
    words = ""
    for line in lines:
        if not line.startswith(" " * 8):
            words = line.partition(": ")[2]
            continue
        pattern = re.escape(words[:50]).replace(r"\{\}", ".*")
        warned = outcome(line.strip()).get("warned", ())
        if not any(re.match(pattern, one) for one in warned):
            print("not given:", line.strip(), warned)


def main() -> None:
    """Write what the rows did: those that are named, or all."""
    rows = WORDS[1:] or [text for texts in ROWS.values() for text in texts]
    found = {text: outcome(text) for text in dict.fromkeys([*ROWS["usual"], *rows])}
    usual = {told for text in ROWS["usual"] for told in found[text].get("warned", ())}
    for result in found.values():
        if "warned" in result:
            result["warned"] = [told for told in result["warned"] if told not in usual]
    path = RECORDED if HOW == "lightning" else Path(WORDS[0])
    path.write_text(json.dumps(found, indent=1, default=repr) + "\n", "utf-8")


if __name__ == "__main__":
    check_warnings() if HOW == "warnings" else main()
