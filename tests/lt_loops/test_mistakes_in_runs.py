"""Mistakes that a run finds: hooks, what steps return, loaders, models. A part of the table behind docs/mistakes.md."""

import importlib.util
import re
import textwrap
import warnings
from pathlib import Path

import pytest
import torch
from torch import nn
from torch.optim import SGD
from torch.optim.lr_scheduler import ReduceLROnPlateau
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, WeightedRandomSampler

from lt_core import (
    Callback,
    CheckpointError,
    ConfigError,
    ConfigTypeError,
    DataError,
    HookError,
    LightningModule,
    LogError,
    Logger,
    LtError,
    LtWarning,
)
from lt_core.data import DataSource
from lt_loops import Trainer

_spec = importlib.util.spec_from_file_location("mistakes_table", Path(__file__).with_name("test_mistakes.py"))
_table = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(_table)
row = _table.row

QUIET = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
TYPE = ConfigTypeError

HOOKS = [
    row(wrote, *names, way_out=way_out, kind=HookError)
    for wrote, *names, way_out in [
        ("def training_step(self): ...", "training_step()", "lt calls training_step(batch, batch_idx)"),
        ("def training_step(self, batch, batch_idx, scale): ...", "(batch, batch_idx, scale)", "(batch, batch_idx)"),
        ("def training_step(self, *, batch): ...", "(*, batch)", "lt calls training_step(batch, batch_idx)"),
        ("def validation_step(self): ...", "validation_step()", "(batch, batch_idx, dataloader_idx)"),
        ("def test_step(self, batch, i, j, k): ...", "(batch, i, j, k)", "(batch, batch_idx, dataloader_idx)"),
        ("def on_train_start(self, trainer): ...", "on_train_start(trainer)", "Take no parameters"),
        ("def on_train_epoch_start(self, epoch): ...", "on_train_epoch_start(epoch)", "Take no parameters"),
        ("def on_train_batch_end(self, a, b, c, d, e): ...", "(a, b, c, d, e)", "(outputs, batch, batch_idx)"),
        ("def on_validation_batch_end(self): ...", "on_validation_batch_end()", "(outputs, batch, batch_idx,"),
        ("def on_before_optimizer_step(self, a, b, c): ...", "(a, b, c)", "on_before_optimizer_step(optimizer)"),
        ("def on_after_backward(self, loss): ...", "on_after_backward(loss)", "Take no parameters"),
        ("def on_save_checkpoint(self): ...", "on_save_checkpoint()", "on_save_checkpoint(checkpoint)"),
        ("def setup(self, stage, data): ...", "setup(stage, data)", "lt calls setup(stage)"),
        ("def prepare_data(self, folder): ...", "prepare_data(folder)", "Take no parameters"),
        ("def train_dataloader(self, size): ...", "train_dataloader(size)", "Take no parameters"),
        ("def configure_optimizers(self, lr): ...", "configure_optimizers(lr)", "Take no parameters"),
        ("def configure_model(self, size): ...", "configure_model(size)", "Take no parameters"),
        ("def optimizer_step(self, a, b, c, d, e): ...", "(a, b, c, d, e)", "optimizer_step(epoch, batch_idx,"),
        (
            "def optimizer_step(self, *args): ...",
            "did not call its closure",
            "optimizer.step(closure=optimizer_closure)",
        ),
        ("def backward(self, loss, x): ...", "backward(loss, x)", "lt calls backward(loss)"),
        ("def on_before_batch_transfer(self, a, b, c): ...", "(a, b, c)", "(batch, dataloader_idx)"),
        ("def on_after_batch_transfer(self, batch, i): ...", "returned None", "End it with: return batch"),
        ("def transfer_batch_to_device(self, *args): ...", "returned None", "End it with: return batch"),
        ("on_train_start = 3", "on_train_start is 3", "expected a method"),
        ("configure_callbacks = False", "configure_callbacks is False", "expected a method"),
    ]
] + [
    row("def configure_callbacks(self): return 3", "returned 3 (int)", way_out="expected Callback instances", kind=TYPE)
]

CALLBACKS = [
    row(
        "def on_train_start(self, trainer): ...",
        "on_train_start(trainer)",
        way_out="(trainer, pl_module)",
        kind=HookError,
    ),
    row("on_train_start = 3", "on_train_start is 3", way_out="expected a method", kind=HookError),
    row("def on_fit_end(self): ...", "on_fit_end()", way_out="lt calls on_fit_end(trainer, pl_module)", kind=HookError),
    row(
        "def on_train_epoch_end(self): ...",
        "on_train_epoch_end()",
        way_out="lt calls on_train_epoch_end(trainer, pl_module)",
        kind=HookError,
    ),
    row(
        "def on_train_batch_end(self, trainer): ...", "(trainer)", way_out="outputs, batch, batch_idx)", kind=HookError
    ),
    row(
        "def on_train_epoch_end(self, trainer, net, a, b): ...",
        "(trainer, net, a, b)",
        way_out="(trainer, pl_module)",
        kind=HookError,
    ),
    row(
        "def setup(self, trainer, net, stage, more): ...",
        "(trainer, net, stage, more)",
        way_out="pl_module, stage)",
        kind=HookError,
    ),
]

RETURNS = [
    row(f"def training_step(self, batch, batch_idx): return {wrote}", *names, way_out=way_out, kind=HookError)
    for wrote, *names, way_out in [
        ("'loss'", "'loss' (str)", "Return the loss"),
        ("0.5", "0.5 (float)", "Return the loss (a tensor with one element)"),
        ("True", "True (bool)", "Return the loss"),
        ("self(batch)", "shape (2, 2)", "Take loss.mean()"),
        ("{'losss': self.loss(batch)}", "the keys ['losss']", "a dict with the key 'loss'"),
        ("{'loss': 0.5}", "its 'loss' is a float", "Return the loss"),
        (
            "{'loss': self.loss(batch), 'loss_weight': 'two'}",
            "its 'loss_weight' is a str",
            "expected a number of samples",
        ),
        ("[self.loss(batch)]", "(list)", "Return the loss"),
        ("self.loss(batch), batch", "(tuple)", "Return the loss"),
        ("(yield)", "(generator)", "Return the loss"),
        (
            "self.manual_backward(self.loss(batch))",
            "automatic_optimization is True",
            "return the loss from training_step",
        ),
    ]
]
RETURNS[-1] = RETURNS[-1]._replace(kind=ConfigError)
RETURNS += [
    row(
        f"def training_step(self, batch, batch_idx): return {wrote}",
        "no parameter leads to",
        way_out=way_out,
        kind=RuntimeError,
    )
    for wrote, way_out in [
        ("self.loss(batch).detach()", "It was detached (.detach(), .data, .item()"),
        ("torch.tensor(0.5)", "made from a number"),
        ("(self(batch) > 0).sum()", "by what has no gradient (argmax, a comparison)"),
    ]
]

LOADERS = [
    row("fit(net)", "nothing to train on", way_out="pass train_dataloaders=", kind=DataError),
    row("fit(net, DataLoader)", "the class DataLoader", way_out="Pass an instance: DataLoader(...)", kind=TYPE),
    row("fit(net, torch.ones(8, 2))", "(Tensor)", way_out="expected a DataLoader or another iterable", kind=TYPE),
    row("fit(net, 'data')", "'data' (str)", way_out="expected a DataLoader or another iterable", kind=TYPE),
    row("fit(net, lambda: loader)", "a function", way_out="Call it", kind=TYPE),
    row("fit(net, [])", "is empty", way_out="", kind=DataError),
    row("fit(net, DataLoader(TensorDataset(torch.ones(0, 2))))", "is empty", way_out="", kind=DataError),
    row("fit(net, DataLoader(dataset, 16, drop_last=True))", "is empty", way_out="drop_last=True", kind=DataError),
    row("fit(net, a_generator(), max_epochs=2)", "no batch in epoch 1", way_out="ass a list", kind=DataError),
    row("fit(net, unsized, limit_train_batches=0.5)", "limit_train_batches=0.5", way_out="Take a count of batches"),
    row("fit(net, loader, unsized, limit_val_batches=0.5)", "limit_val_batches=0.5", way_out="Take a count of batches"),
    row(
        "fit(net, unsized, loader, val_check_interval=0.5)",
        "val_check_interval=0.5",
        way_out="a count of batches, or 1.0",
    ),
    row(
        "fit(net, loader, loader, val_check_interval=10)",
        "longer than the epoch of 4",
        way_out="check_val_every_n_epoch=None",
    ),
    row("fit(net, loader, limit_train_batches=0.1)", "less than one batch", way_out="Take a larger fraction"),
    row("fit(net, nine_batches, limit_train_batches=0.1)", "0.1 of 9 batches", way_out="Take a larger fraction"),
    row(
        "fit(net, own_sampler, overfit_batches=2)",
        "a WeightedRandomSampler of its own",
        way_out="shuffle=False",
        kind=LtWarning,
    ),
    row(
        "fit(net, loader, datamodule=data)",
        "both loaders (train) and a datamodule",
        way_out="Pass one of the two",
        kind=TYPE,
    ),
    row("fit(net, datamodule=loader)", "a DataLoader", way_out="Loaders are passed as dataloaders=", kind=TYPE),
    row("fit(net, datamodule=Data)", "Data", way_out="expected a LightningDataModule instance", kind=TYPE),
    row("fit(net, loader, data)", "the datamodule Data", way_out="Pass it as datamodule=", kind=TYPE),
    row("fit(net, [data])", "the datamodule Data", way_out="Pass it as datamodule=", kind=TYPE),
    row("validate(net)", "no data", way_out="define val_dataloader in the module", kind=HookError),
    row("validate(net, [loader, loader])", "several loaders", way_out="dataloader_idx=0)", kind=HookError),
    row("predict(net)", "no data", way_out="define predict_dataloader in the module", kind=HookError),
]

MODELS = [
    row("fit(Net, loader)", "the class Net", way_out="pass an instance", kind=TYPE),
    row("fit(nn.Linear(2, 2), loader)", "a Linear", way_out="expected a LightningModule", kind=TYPE),
    row("fit(loader, net)", "a DataLoader", way_out="expected a LightningModule", kind=TYPE),
    row("fit(ForgotSuper(), loader)", "ForgotSuper.__init__", way_out="super().__init__()", kind=TYPE),
    row("fit(NoStep(), loader)", "NoStep.training_step", way_out="define it in the module", kind=HookError),
    row(
        "fit(NoOptimizer(), loader)",
        "NoOptimizer.configure_optimizers",
        way_out="define it in the module",
        kind=HookError,
    ),
    row("test(NoStep(), loader)", "NoStep.test_step", way_out="define it in the module", kind=HookError),
    row(
        "fit(TwoOptimizers(), loader)",
        "2 optimizers without names",
        way_out="self.automatic_optimization = False",
        kind=HookError,
    ),
    row(
        "fit(Manual(), loader, accumulate_grad_batches='auto')",
        "automatic_optimization=False",
        way_out="accumulate_grad_batches=4 with a quarter of the batch",
    ),
    row(
        "fit(net, [(torch.ones(2, 2), torch.ones(3))], accumulate_grad_batches='auto')",
        "batch[0]: 2, batch[1]: 3",
        way_out="Put what is not by samples elsewhere",
        kind=HookError,
    ),
    row("fit(WrongMonitor(), loader, loader)", "'val_los', which was not logged", way_out="Did you mean 'val_loss'?"),
    row("fit(OnPlateau(), loader)", "'val_loss', which was not logged", way_out="Log it", kind=LtWarning),
    row("fit(Frozen(), loader)", "no parameter leads to", way_out="All its parameters are frozen", kind=RuntimeError),
    row(
        "fit(net, [[torch.ones(2, 2).numpy()]])",
        "not numpy.ndarray",
        way_out="write torch.from_numpy(array).float(). [LT128]",
        kind=TypeError,
    ),
    row(
        "validate(AddsFloat(), [torch.ones(2, 2).numpy()])",
        "no attribute 'float'",
        way_out="write torch.from_numpy(array).float(). [LT128]",
        kind=AttributeError,
    ),
    row("fit(DoubleData(), loader)", "Double and Float", way_out="convert the data", kind=RuntimeError),
    row(
        "fit(Sparse(), loader, gradient_clip_val=1.0)",
        "Sparse",
        way_out="configure_gradient_clipping",
        kind=NotImplementedError,
    ),
    row(
        "fit(NaNLoss(), loader)",
        "loss is nan at optimizer step 4",
        "'layer.weight'",
        way_out="detect_anomaly=True",
        kind=LtWarning,
    ),
    row("fit(NaNLoss(), loader, detect_anomaly=True)", "nan", "optimizer step 0", way_out="LT341", kind=RuntimeError),
    row(
        "fit(InfiniteLoss(), loader, detect_anomaly=True)",
        "loss is inf at",
        way_out="Try a lower learning rate",
        kind=LtError,
    ),
    row("validate()", "nothing was fitted by this Trainer yet", way_out="needs a module", kind=TYPE),
    row("fit(net, loader, ckpt_path='nowhere.ckpt')", "nowhere.ckpt", way_out="is not there", kind=CheckpointError),
    row("fit(net, loader, ckpt_path='lst')", "ckpt_path='lst'", way_out="Did you mean 'last'?", kind=CheckpointError),
    row("fit(net, loader, ckpt_path='best')", "ckpt_path='best'", way_out="Pass a path", kind=CheckpointError),
    row("fit(net, loader, ckpt_path=3)", "ckpt_path=3", way_out="expected a path", kind=TYPE),
    row("fit(net, loader, ckpt_path='hpc')", "ckpt_path='hpc'", way_out="'auto' to start anew", kind=CheckpointError),
    row("test(net, loader, ckpt_path='last')", "no checkpoint found", way_out="call fit first", kind=CheckpointError),
]

LOGS = [
    row(f"self.log({wrote})", *names, way_out=way_out, kind=LogError)
    for wrote, *names, way_out in [
        ("'a', 'text'", "got str", "trainer.log_media"),
        ("'a', torch.ones(3)", "shape (3,)", "Log its mean"),
        ("3, 1.0", "3 (int)", "a non-empty string"),
        ("'', 1.0", "''", "a non-empty string"),
        ("'a', 1.0, reduce_fx='average'", "'average'", "'mean', 'sum', 'min' or 'max'"),
        ("'a', 1.0, batch_size='four'", "batch_size='four'", "how many samples the value stands for"),
    ]
] + [
    row(
        "self.log('a', 1.0, on_step=False, on_epoch=False)",
        "it is logged nowhere",
        way_out="Write on_step=True or on_epoch=True",
        kind=LtWarning,
    )
]
LOGS += [
    row(
        "self.log('a', 1.0, on_steps=True)",
        "self.log() got",
        "'on_steps'",
        way_out="Did you mean 'on_step'",
        kind=TypeError,
    ),
    row("self.log('a')", "'value'", way_out="It takes name, value, prog_bar", kind=TypeError),
]
LOGS += [row("def on_fit_start(self): self.log('a', 1.0)", "'on_fit_start'", way_out="Log in a step", kind=LogError)]

ATTRIBUTES = [
    row(wrote, *names, way_out=way_out, kind=LtWarning)
    for wrote, *names, way_out in [
        ("trainer.shoud_stop = True", "trainer.shoud_stop", "Did you mean 'should_stop'?"),
        ("trainer.max_epoch = 3", "trainer.max_epoch", "Did you mean 'max_epochs'?"),
        ("trainer.inference_mode = False", "trainer.inference_mode", "Write Trainer(inference_mode=...)"),
        ("net.automatic_optimisation = False", "Net.automatic_optimisation", "mean 'automatic_optimization'?"),
        ("net.strict_loadng = False", "Net.strict_loadng", "Did you mean 'strict_loading'?"),
        ("net.trains_without_los = True", "Net.trains_without_los", "Did you mean 'trains_without_loss'?"),
        ("data.prepare_data_per_nod = False", "Data.prepare_data_per_nod", "Did you mean 'prepare_data_per_node'?"),
    ]
] + [
    row(
        "trainer.callbacks = []",
        "trainer.callbacks cannot be set",
        way_out="Trainer(callbacks=...)",
        kind=AttributeError,
    ),
    row("trainer.world_size = 2", "trainer.world_size cannot be set", way_out="only be read", kind=AttributeError),
    row("net.hparams = {'lr': 0.1}", "Net.hparams cannot be assigned", way_out="self.save_hyperparameters(hparams)"),
]
AXES = {"tokns": "tokens", "setp": "step", "epohc": "epoch", "sampels": "samples", "Tokens": "tokens"}
ATTRIBUTES += [
    row(f"trainer.log_axis = {wrote!r}", repr(wrote), way_out=f"Did you mean {meant!r}?", kind=LtError)
    for wrote, meant in AXES.items()
]

MISTAKES = {
    "Attributes": ATTRIBUTES,
    "Hooks of the module": HOOKS,
    "Hooks of a callback": CALLBACKS,
    "What training_step returns": RETURNS,
    "Loaders": LOADERS,
    "Models and runs": MODELS,
    "self.log": LOGS,
}


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, batch):
        return self.layer(batch[0])

    def loss(self, batch):
        return self(batch).square().mean()

    def training_step(self, batch, batch_idx):
        self.log("tokens", 4.0)
        return self.loss(batch)

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.loss(batch))

    def configure_optimizers(self):
        return SGD(self.parameters(), lr=0.1)


class ForgotSuper(LightningModule):
    def __init__(self):
        self.size = 2


class NoStep(LightningModule):
    def configure_optimizers(self):
        return None


class NoOptimizer(LightningModule):
    def training_step(self, batch, batch_idx):
        return None


class Manual(Net):
    def __init__(self):
        super().__init__()
        self.automatic_optimization = False


class TwoOptimizers(Net):
    def configure_optimizers(self):
        return [SGD(self.parameters(), lr=0.1), SGD(self.parameters(), lr=0.1)]


class WrongMonitor(Net):
    def configure_optimizers(self):
        optimizer = SGD(self.parameters(), lr=0.1)
        return {"optimizer": optimizer, "lr_scheduler": ReduceLROnPlateau(optimizer), "monitor": "val_los"}


class OnPlateau(Net):
    def configure_optimizers(self):
        optimizer = SGD(self.parameters(), lr=0.1)
        return {"optimizer": optimizer, "lr_scheduler": ReduceLROnPlateau(optimizer), "monitor": "val_loss"}


class Frozen(Net):
    def __init__(self):
        super().__init__()
        self.requires_grad_(False)


class DoubleData(Net):
    def training_step(self, batch, batch_idx):
        return self.layer(batch[0].double()).sum()


class Sparse(Net):
    def __init__(self):
        super().__init__()
        self.words = torch.nn.Embedding(4, 2, sparse=True)

    def training_step(self, batch, batch_idx):
        return self.words(torch.tensor([1])).sum()


class AddsFloat(Net):
    def validation_step(self, batch, batch_idx):
        return batch.float()


class NaNLoss(Net):
    def loss(self, batch):
        return super().loss(batch) * float("nan")


class InfiniteLoss(Net):
    def loss(self, batch):
        return super().loss(batch) + float("inf")


class Data(DataSource):
    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.ones(8, 2)), 2)


class Unsized(IterableDataset):
    def __iter__(self):
        return iter([(torch.ones(2),)] * 8)


def a_generator():
    yield from [[torch.ones(2, 2)]] * 3


def message_of(mistake):
    """Return the error that the user of a row sees, or the warning where the row is of one."""
    torch.manual_seed(0)
    dataset = TensorDataset(torch.ones(8, 2))
    loader = DataLoader(dataset, 2)
    runs = {stage: _runner(stage) for stage in ("fit", "validate", "test", "predict")}
    names = {
        **globals(),
        **runs,
        "Callback": Callback,
        "net": Net(),
        "data": Data(),
        "dataset": dataset,
        "loader": loader,
    }
    names["own_sampler"] = DataLoader(dataset, 2, sampler=WeightedRandomSampler([1.0] * 8, 8))
    names["nine_batches"] = DataLoader(TensorDataset(torch.ones(9, 2)))
    names["unsized"] = DataLoader(Unsized(), 2)
    code = mistake.wrote
    if mistake in CALLBACKS:
        code = f"class Own(Callback):\n{textwrap.indent(code, '    ')}\nfit(net, loader, callbacks=Own())"
    elif mistake in ATTRIBUTES:
        names["trainer"] = Trainer(
            accelerator="cpu",
            max_epochs=1,
            limit_val_batches=0,
            **{**QUIET, "logger": Logger()},
            log_every_n_steps=1,
        )
        code += "\ntrainer.fit(net, datamodule=data)"
    elif code.startswith("self.log"):
        step = f"def training_step(self, batch, batch_idx): {code}; return self.loss(batch)"
        code = f"class Own(Net):\n    {step}\nfit(Own(), loader)"
    elif not code.startswith(tuple(f"{stage}(" for stage in runs)):
        given = "" if "train_dataloader" in code else "loader, loader"
        code = f"class Own(Net):\n{textwrap.indent(code, '    ')}\nfit(Own(), {given})"
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        try:
            exec(code, names)
        except (LtError, RuntimeError, AttributeError, TypeError) as error:
            return error
    found = [one.message for one in told if isinstance(one.message, LtWarning)]
    assert found, f"nothing was told for {mistake.wrote}"
    return found[-1]


def _runner(stage):
    def run(*arguments, ckpt_path=None, datamodule=None, **settings):
        trainer = Trainer(**{"accelerator": "cpu", "max_epochs": 1, **QUIET, **settings})
        getattr(trainer, stage)(*arguments, datamodule=datamodule, ckpt_path=ckpt_path)

    return run


def full_text(error):
    """Return an error's text with the notes that explain it."""
    return "\n".join([str(error), *getattr(error, "__notes__", ())])


ROWS = [mistake for rows in MISTAKES.values() for mistake in rows]
EXPLAINED = re.compile(
    "no parameter leads|LT128|Double and Float|configure_gradient_clipping|LT341|It takes|self.log.. got"
)
"""The parts of an answer that lt-explain gives."""


@pytest.mark.parametrize("mistake", ROWS, ids=[mistake.wrote for mistake in ROWS])
def test_a_mistake_is_answered_with_its_name_its_value_and_the_way_out(mistake):
    if "accumulate_grad_batches='auto'" in mistake.wrote:
        pytest.importorskip("lt_memory", reason="it cuts batches")
    if "numpy()" in mistake.wrote:
        pytest.importorskip("numpy")
    if EXPLAINED.search(str(mistake)):
        pytest.importorskip("lt_explain", reason="it explains torch's errors")
    error = message_of(mistake)
    assert isinstance(error, mistake.kind), repr(error)
    for part in (*mistake.names, mistake.way_out):
        assert part in full_text(error), full_text(error)
    assert re.search(r"\[LT\d{3}\]$", full_text(error)) or isinstance(error, AttributeError)


def test_a_lookup_of_the_users_own_that_names_an_array_gets_no_note(trainer, loader):
    class Looks(Net):
        def training_step(self, batch, batch_idx):
            return {}["a column of numpy.ndarray"]

    with pytest.raises(KeyError) as caught:
        trainer().fit(Looks(), loader())
    assert not [note for note in getattr(caught.value, "__notes__", ()) if "LT128" in note]
