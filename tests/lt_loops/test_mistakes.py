"""What users get wrong, and what they are told: the table behind docs/mistakes.md (``tools/mistakes.py`` writes it)."""

import functools
import importlib.util
import itertools
import math
import re
import runpy
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import torch
from torch import nn
from torch.optim import SGD, Adam
from torch.optim.lr_scheduler import ReduceLROnPlateau, StepLR

from lt_core import Accelerator, Callback, ConfigError, ConfigTypeError, LightningModule, Logger, PluginError, Precision
from lt_loops import Trainer
from lt_loops.setup.optimizers import parse_optimizers


class Mistake(NamedTuple):
    """One row: what the user wrote, what the message must name, and the way out that it must show."""

    wrote: str
    names: tuple[str, ...]
    way_out: str
    kind: type[Exception] = ConfigError


def row(wrote: str, *names: str, way_out: str, kind: type[Exception] = ConfigError) -> Mistake:
    return Mistake(wrote, names, way_out, kind)


TYPE = ConfigTypeError

ARGUMENTS = [
    row("Trainer(max_epoch=5)", "max_epoch=5", way_out="Did you mean 'max_epochs'?", kind=TYPE),
    row("Trainer(gpu=1)", "gpu=1", way_out="Write accelerator='gpu', devices=1", kind=TYPE),
    row("Trainer(epochs=3)", "epochs=3", way_out="Write max_epochs=3", kind=TYPE),
    row("Trainer(lr=0.1)", "lr=0.1", way_out="the optimizer that configure_optimizers returns", kind=TYPE),
    row("Trainer(colour='red')", "colour='red'", way_out="Expected: accelerator, strategy", kind=TYPE),
    row("Trainer(max_epochs='5')", "max_epochs='5'", "a str", way_out="Write max_epochs=5, without quotes", kind=TYPE),
    row("Trainer(max_epochs=5.0)", "max_epochs=5.0", "a float", way_out="Write max_epochs=5, for", kind=TYPE),
    row("Trainer(max_epochs=2.5)", "max_epochs=2.5", "a float", way_out="Write max_epochs=5, for", kind=TYPE),
    row("Trainer(max_epochs=1e400)", "max_epochs=inf", "a float", way_out="-1 for no limit", kind=TYPE),
    row("Trainer(max_epochs=True)", "max_epochs=True", "a bool", way_out="Write max_epochs=5, for", kind=TYPE),
    row("Trainer(max_epochs=-2)", "max_epochs=-2", "-1 for no limit", way_out="Write max_epochs=-1"),
    row("Trainer(max_epochs=[3])", "max_epochs=[3]", "a list", way_out="Write max_epochs=5, for instance", kind=TYPE),
    row("Trainer(accumulate_grad_batches='Auto')", "accumulate_grad_batches='Auto'", way_out="or 'auto'", kind=TYPE),
    row("Trainer(min_epochs=-1)", "min_epochs=-1", "0 or more", way_out="Write min_epochs=0"),
    row("Trainer(min_epochs=0.5)", "min_epochs=0.5", "a float", way_out="Write min_epochs=5, for", kind=TYPE),
    row("Trainer(min_epochs=5, max_epochs=3)", "min_epochs=5 and max_epochs=3", way_out="Raise max_epochs to 5"),
    row("Trainer(max_steps=1e4)", "max_steps=10000.0", "a float", way_out="Write max_steps=5, for", kind=TYPE),
    row("Trainer(max_steps=-5)", "max_steps=-5", "-1 for no limit", way_out="Write max_steps=-1"),
    row("Trainer(min_steps=100, max_steps=10)", "min_steps=100 and max_steps=10", way_out="Raise max_steps to 100"),
    row(
        "Trainer(min_steps='100')", "min_steps='100'", "a str", way_out="Write min_steps=100, without quotes", kind=TYPE
    ),
    row("Trainer(max_time='1 hor')", "max_time='1 hor'", "'hor' is no unit", way_out="Did you mean 'hours'?"),
    row("Trainer(max_time='30:00')", "max_time='30:00'", "'DD:HH:MM:SS'", way_out="Half an hour is '30 min'"),
    row("Trainer(max_time=3600)", "max_time=3600", "an int", way_out="For seconds write {'seconds': 3600}", kind=TYPE),
    row("Trainer(max_time={'hour': 1})", "max_time={'hour': 1}", "'hour'", way_out="Did you mean 'hours'?"),
    row("Trainer(max_time={'hours': '1'})", "max_time={'hours': '1'}", "a str", way_out="{'hours': 30}", kind=TYPE),
    row("Trainer(max_time=timedelta(-1))", "max_time=datetime.timedelta(days=-1)", way_out="not negative"),
    row("Trainer(max_time='2 epoks')", "'epoks' is no unit", way_out="Did you mean 'epochs'?"),
    row("Trainer(max_time='0.5 epochs')", "a whole number of epochs", way_out="Write max_time='1 epochs'"),
    row("Trainer(max_time='0.5 run')", "max_time='0.5 run': expected '500 steps'", way_out="'1e6 samples'"),
    row("Trainer(max_time=500)", "'500 steps'", "an int", way_out="'500 s'", kind=TYPE),
    row("Trainer(max_time='9 epochs', max_steps=5)", "max_time='9 epochs' and max_steps=5", way_out="Leave out either"),
    row("Trainer(max_duration='2 h', max_time='3 h')", "max_duration='2 h' and max_time='3 h'", way_out="Leave out"),
    row(
        "Trainer(limit_train_batches=5.0)",
        "limit_train_batches=5.0",
        "0.0 to 1.0",
        way_out="Write limit_train_batches=5 for",
    ),
    row("Trainer(limit_train_batches=-1)", "limit_train_batches=-1", way_out="limit_train_batches=0 for none"),
    row(
        "Trainer(limit_val_batches='0.1')",
        "limit_val_batches='0.1'",
        "a str",
        way_out="=0.1, without quotes",
        kind=TYPE,
    ),
    row("Trainer(limit_val_batches=False)", "limit_val_batches=False", "a bool", way_out="=0.5, for", kind=TYPE),
    row("Trainer(limit_test_batches=1.5)", "limit_test_batches=1.5", way_out="Write limit_test_batches=5 for"),
    row(
        "Trainer(limit_predict_batches=math.nan)",
        "limit_predict_batches=nan",
        way_out="limit_predict_batches=0 for none",
    ),
    row(
        "Trainer(limit_test_batches=[1, 2])",
        "limit_test_batches=[1, 2]",
        "a list",
        way_out="=0.5, for instance",
        kind=TYPE,
    ),
    row("Trainer(overfit_batches=-0.5)", "overfit_batches=-0.5", way_out="overfit_batches=0 for none"),
    row(
        "Trainer(overfit_batches=2, limit_train_batches=10)",
        "overfit_batches=2 and limit_train_batches=10",
        way_out="Leave limit_train_batches out, or take overfit_batches=0.0",
    ),
    row(
        "Trainer(val_check_interval=2.0)", "val_check_interval=2.0", "up to 1.0", way_out="Write val_check_interval=100"
    ),
    row(
        "Trainer(val_check_interval=0)", "val_check_interval=0", way_out="to validate never, write limit_val_batches=0"
    ),
    row("Trainer(val_check_interval='often')", "val_check_interval='often'", way_out="Half an hour is '30 min'"),
    row("Trainer(val_check_interval=True)", "val_check_interval=True", "a bool", way_out="=1.0", kind=TYPE),
    row(
        "Trainer(val_check_interval=0.5, check_val_every_n_epoch=None)",
        "check_val_every_n_epoch=None and val_check_interval=0.5",
        way_out="Write val_check_interval=1000, for instance, or check_val_every_n_epoch=1",
    ),
    row("Trainer(check_val_every_n_epoch=0)", "check_val_every_n_epoch=0", way_out="write limit_val_batches=0"),
    row("Trainer(num_sanity_val_steps=-2)", "num_sanity_val_steps=-2", way_out="Write num_sanity_val_steps=-1"),
    row("Trainer(log_every_n_steps=-1)", "log_every_n_steps=-1", way_out="Write log_every_n_steps=0"),
    row(
        "Trainer(log_every_n_steps=0.1)",
        "log_every_n_steps=0.1",
        "a float",
        way_out="log_every_n_steps=5, for",
        kind=TYPE,
    ),
    row("Trainer(fast_dev_run=-1)", "fast_dev_run=-1", way_out="Write fast_dev_run=True for one"),
    row("Trainer(fast_dev_run='yes')", "fast_dev_run='yes'", "a str", way_out="Write fast_dev_run=True", kind=TYPE),
    row("Trainer(accumulate_grad_batches=0)", "accumulate_grad_batches=0", way_out="Write accumulate_grad_batches=1"),
    row(
        "Trainer(accumulate_grad_batches=2.0)",
        "accumulate_grad_batches=2.0",
        way_out="=1 for a step after each batch",
        kind=TYPE,
    ),
    row("Trainer(accumulate_grad_batches={})", "accumulate_grad_batches={}", way_out="{0: 8, 4: 4}"),
    row("Trainer(accumulate_grad_batches={4: 0})", "{4: 0}", "4: 0", way_out="batches from 1 on"),
    row(
        "Trainer(global_batch_size=64, accumulate_grad_batches=2)",
        "global_batch_size=64 and accumulate_grad_batches=2",
        way_out="Leave one of them out",
    ),
    row("Trainer(accumulate_grad_batches={'4': 2})", "{'4': 2}", "'4': 2", way_out="epochs from 0 on", kind=TYPE),
    row("Trainer(gradient_clip_val=-1)", "gradient_clip_val=-1", way_out="Write gradient_clip_val=None"),
    row("Trainer(gradient_clip_val='1.0')", "gradient_clip_val='1.0'", way_out="=1.0, without quotes", kind=TYPE),
    row("Trainer(gradient_clip_val=True)", "gradient_clip_val=True", way_out="Write gradient_clip_val=1.0", kind=TYPE),
    row("Trainer(gradient_clip_algorithm='norms')", "gradient_clip_algorithm='norms'", way_out="Did you mean 'norm'?"),
    row("Trainer(gradient_clip_algorithm=2)", "gradient_clip_algorithm=2", way_out="'norm'", kind=TYPE),
    row("Trainer(deterministic='warning')", "deterministic='warning'", way_out="Did you mean 'warn'?"),
    row("Trainer(deterministic=2)", "deterministic=2", "an int", way_out="Write deterministic=True", kind=TYPE),
    row("Trainer(benchmark='on')", "benchmark='on'", "a str", way_out="Write benchmark=True", kind=TYPE),
    row(
        "Trainer(inference_mode='no')",
        "inference_mode='no'",
        "a str",
        way_out="Write inference_mode=True or",
        kind=TYPE,
    ),
    row(
        "Trainer(enable_progress_bar=2)",
        "enable_progress_bar=2",
        way_out="Write enable_progress_bar=True or",
        kind=TYPE,
    ),
    row("Trainer(detect_anomaly=2)", "detect_anomaly=2", "an int", way_out="Write detect_anomaly=True", kind=TYPE),
    row("Trainer(num_nodes=0)", "num_nodes=0", "1 or more", way_out="Write num_nodes=1"),
    row("Trainer(num_nodes='2')", "num_nodes='2'", "a str", way_out="Write num_nodes=2, without quotes", kind=TYPE),
    row("Trainer(devices=0)", "devices=0", way_out="write accelerator='cpu', devices=1"),
    row("Trainer(devices=-2)", "devices=-2", "-1 for all", way_out="write accelerator='cpu', devices=1"),
    row("Trainer(devices=1.0)", "devices=1.0", "a float", way_out="Write devices=1, for", kind=TYPE),
    row("Trainer(devices=[])", "devices=[]", way_out="Write devices='auto'"),
    row("Trainer(devices=['cuda:0'])", "devices=['cuda:0']", "a list", way_out="indices ([0, 2]", kind=TYPE),
    row("Trainer(devices='')", "devices=''", way_out="Write devices='auto'"),
    row("Trainer(devices=True)", "devices=True", "a bool", way_out="Write devices=1, for", kind=TYPE),
    row("Trainer(accelerator=Accelerator)", "accelerator=Accelerator", way_out="an object, not its class", kind=TYPE),
    row("Trainer(accelerator=torch.device('cpu'))", "accelerator=device(type='cpu')", way_out="'cpu'", kind=TYPE),
    row("Trainer(accelerator=1)", "accelerator=1", "an int", way_out="Write accelerator='cpu'", kind=TYPE),
    row("Trainer(strategy=['ddp'])", "strategy=['ddp']", "a list", way_out="Write strategy='ddp'", kind=TYPE),
    row("Trainer(strategy='')", "strategy=''", way_out="Leave strategy out for its default"),
    row("Trainer(precision=8)", "precision=8", way_out="Write precision='32-true'"),
    row("Trainer(precision=16.0)", "precision=16.0", "a float", way_out="Write precision='32-true'", kind=TYPE),
    row("Trainer(precision='half')", "'16-mixed'", "'16-true'", way_out="Write '16-mixed'"),
    row("Trainer(precision=torch.int8)", "precision=torch.int8", way_out="'bf16-mixed'"),
    row("Trainer(precision=Precision)", "precision=Precision", way_out="Write precision=Precision(...)", kind=TYPE),
    row("Trainer(precision={'eval': True})", "precision['eval']=True", "a bool", way_out="'bf16-true'", kind=TYPE),
    row("Trainer(precision={'test': 16})", "precision={'test': 16}", way_out="{'train': '32-true'"),
    row(
        "Trainer(precision='16-mixed', plugins=[Precision()])",
        "precision='16-mixed' and plugins=[Precision(...)]",
        way_out="Leave precision out, or take the plug-in out",
    ),
    row("Trainer(plugins=[Precision(), Precision()])", "Precision and Precision", way_out="Take one out"),
    row("Trainer(plugins=[Adam])", "plugins=", "the class Adam itself", way_out="an object, not its class", kind=TYPE),
    row(
        "Trainer(callbacks=MyCallback)", "callbacks=MyCallback", way_out="Write callbacks=[MyCallback(...)]", kind=TYPE
    ),
    row(
        "Trainer(callbacks=[MyCallback])",
        "the class MyCallback itself",
        way_out="callbacks=[MyCallback(...)]",
        kind=TYPE,
    ),
    row("Trainer(callbacks=[None])", "callbacks=[None]", way_out="Take None out of the list", kind=TYPE),
    row("Trainer(callbacks=[print])", "callbacks=", "built-in function print", way_out="Call it", kind=TYPE),
    row("Trainer(callbacks=[my_callback, my_callback])", "same MyCallback twice", way_out="Take one out"),
    row("Trainer(callbacks=[Stateful(), Stateful()])", "two Stateful", "'Stateful'", way_out="override state_key"),
    row("Trainer(callbacks=3)", "callbacks=3", "an int", way_out="EarlyStopping(monitor='val_loss')", kind=TYPE),
    row(
        "Trainer(callbacks=[my_bar], enable_progress_bar=False)",
        "enable_progress_bar=False and callbacks=[MyBar(...)]",
        way_out="Take the callback out, or leave enable_progress_bar out",
    ),
    row("Trainer(callbacks=[MyBar(), MyBar()])", "MyBar and MyBar", "one progress bar", way_out="Take one out"),
    row("Trainer(logger=Logger)", "logger=Logger", way_out="Write logger=[Logger(...)]", kind=TYPE),
    row("Trainer(logger=[True])", "logger=[True]", "a bool", way_out="CSVLogger('logs')", kind=TYPE),
    row("Trainer(logger=[my_logger, my_logger])", "same Logger twice", way_out="Take one out"),
    row("Trainer(profiler=True)", "profiler=True", "a bool", way_out="Write profiler='simple'", kind=TYPE),
    row("Trainer(barebones=True, logger=True)", "barebones=True and logger=True", way_out="Take barebones=False"),
    row(
        "Trainer(barebones=True, enable_checkpointing=True)",
        "enable_checkpointing=True",
        way_out="Take barebones=False",
    ),
    row("Trainer(barebones=True, profiler='simple')", "profiler='simple'", way_out="or leave profiler out"),
    row("Trainer(barebones=True, fast_dev_run=True)", "fast_dev_run=True", way_out="or leave fast_dev_run out"),
    row("Trainer(reload_dataloaders_every_n_epochs=-1)", "every_n_epochs=-1", way_out="Write 0 to keep the loaders"),
    row("Trainer(reload_dataloaders_every_n_epochs=True)", "every_n_epochs=True", way_out="=5, for", kind=TYPE),
    row(
        "Trainer(default_root_dir=3)",
        "default_root_dir=3",
        "an int",
        way_out="Write default_root_dir='runs'",
        kind=TYPE,
    ),
    row("Trainer(default_root_dir=a_file)", "default_root_dir=", "a folder", way_out="This is a file: name its folder"),
    row("Trainer(model_registry=1)", "model_registry=1", way_out="Write model_registry='my-model'", kind=TYPE),
    row(
        "Trainer(compile='reduce-overhead')",
        "compile='reduce-overhead'",
        way_out="{'mode': 'reduce-overhead'}",
        kind=TYPE,
    ),
    row("Trainer(compile={'full_graph': True})", "'full_graph'", way_out="Did you mean 'fullgraph'?"),
    row("Trainer(silence='LT321')", "silence='LT321'", "a str", way_out="Write silence=['LT448']", kind=TYPE),
    row("Trainer(silence=3)", "silence=3", "an int", way_out="expected a list of codes", kind=TYPE),
    row("Trainer(silence=['L321'])", "silence=['L321']", way_out="Did you mean 'LT321'?"),
    row("Trainer(silence=['LT301'])", "silence=['LT301']", way_out="errors stay"),
    row("Trainer(on_signal='stop')", "on_signal='stop'", "'exit' or 'return'", way_out="Take 'exit'"),
    row("Trainer(on_signal=True)", "on_signal=True", "'exit' or 'return'", way_out="Write on_signal='exit'", kind=TYPE),
]

OLD_ARGUMENTS = [
    row("Trainer(gpus=1, devices=2)", "gpus=1", "devices=2", way_out="Leave gpus=1 out"),
    row("Trainer(gpus=1, accelerator='cpu')", "gpus=1", "accelerator='cpu'", way_out="Leave gpus=1 out"),
    row("Trainer(weights_summary='some')", "weights_summary='some'", way_out="ModelSummary(max_depth=...)"),
    row("Trainer(auto_lr_find=True)", "auto_lr_find=True", way_out="write Tuner(trainer).lr_find(model)"),
    row("Trainer(amp_backend='apex')", "amp_backend='apex'", way_out="write precision='16-mixed'"),
    row("Trainer(truncated_bptt_steps=2)", "truncated_bptt_steps=2", way_out="self.truncated_bptt_steps in the module"),
    row(
        "Trainer(checkpoint_callback=True, enable_checkpointing=False)",
        "enable_checkpointing=False",
        way_out="Leave checkpoint_callback out",
    ),
]

NAMES = [
    row("Trainer(strategy='deepspeed')", "lt does not include DeepSpeed", way_out="strategy='fsdp'", kind=PluginError),
    row("Trainer(strategy='dpp')", "Unknown strategy 'dpp'", way_out="Did you mean 'ddp'?", kind=PluginError),
    row("Trainer(accelerator='cdua')", "Unknown accelerator 'cdua'", way_out="Did you mean 'cuda'?", kind=PluginError),
    row("Trainer(precision='16-mixd')", "Unknown precision '16-mixd'", way_out="mean '16-mixed'?", kind=PluginError),
    row("Trainer(logger='tensorbord')", "Unknown logger 'tensorbord'", way_out="mean 'tensorboard'?", kind=PluginError),
    row("Trainer(profiler='simpel')", "Unknown profiler 'simpel'", way_out="Did you mean 'simple'?", kind=PluginError),
    row("Trainer(accelerator='cpu', devices='a')", "devices='a'", way_out="expected a count (2)"),
    row("Trainer(accelerator='cpu', devices='0,x')", "devices='0,x'", way_out="indices ([0, 2] or '0,2')"),
    row(
        "Trainer(strategy='dpp', max_epochs=-3, weights_summary='some', lr=0.1, accelerator='cpu', devices='a')",
        "5 problems",
        "Unknown strategy 'dpp'",
        "max_epochs=-3",
        "weights_summary='some'",
        "lr=0.1 is no argument",
        way_out="devices='a': expected a count",
    ),
]

OPTIMIZERS = [
    row("return Adam", "the class Adam itself", way_out="Adam(self.parameters(), lr=1e-3)"),
    row("return functools.partial(Adam, lr=1e-3)", "a partial", way_out="Call the partial with the parameters"),
    row("return self.parameters()", "generator", way_out="torch.optim.Adam(self.parameters(), lr=1e-3)"),
    row("return list(self.parameters())", "Parameter", way_out="torch.optim.Adam(self.parameters(), lr=1e-3)"),
    row("return 1e-3", "0.001", "a float", way_out="Return torch.optim.Adam"),
    row("return 'adam'", "'adam'", "a str", way_out="Return torch.optim.Adam"),
    row("return []", "[]", "a list", way_out="To optimize nothing return None"),
    row("return {}", "{}", "a dict", way_out="To optimize nothing return None"),
    row("return [], []", "[], []", way_out="To optimize nothing return None"),
    row("return optimizer, scheduler", "The second one is a scheduler", way_out="return [optimizer], [scheduler]"),
    row("return [optimizer, scheduler]", "The second one is a scheduler", way_out="return [optimizer], [scheduler]"),
    row("return scheduler", "StepLR", "This is a scheduler", way_out="return [optimizer], [scheduler]"),
    row("return [[optimizer]]", "a list", way_out="Return one flat list of optimizers"),
    row("return [optimizer, optimizer]", "the same optimizer twice", "SGD, SGD", way_out="make a second optimizer"),
    row("return {'a': optimizer, 'b': optimizer}", "the same optimizer twice", way_out="make a second optimizer"),
    row("return SGD([{'params': []}], lr=0.1)", "The optimizer 0 (SGD)", "no parameters", way_out="self.parameters()"),
    row(
        "return SGD(other.parameters(), lr=0.1)",
        "2 of 2 parameters",
        "not Net's",
        way_out="Make it of self.parameters()",
    ),
    row("return {'gen': SGD(other.parameters(), lr=0.1)}", "The optimizer gen", way_out="Make it of self.parameters()"),
    row("return {'gen': 'adam'}", "'adam'", "under the name 'gen'", way_out="Return torch.optim.Adam"),
    row("return {'gen': [optimizer]}", "under the name 'gen'", way_out="Return one flat list of optimizers"),
    row("return {0: optimizer}", "The name 0", way_out="names are text"),
    row("return {'gen': {'optimizer': optimizer, 'frequency': 2}}", "'gen'", "'frequency'", way_out="a dict of losses"),
    row("return {'optimizer': Adam}", "the class Adam itself", way_out="Adam(self.parameters(), lr=1e-3)"),
    row("return {'optimizer': None}", "None as 'optimizer'", way_out="Return torch.optim.Adam"),
    row("return {'lr_scheduler': scheduler}", "no key 'optimizer'", way_out="{'optimizer': ..., 'lr_scheduler': ...}"),
    row("return {'optimzer': optimizer, 'lr_scheduler': scheduler}", "'optimzer'", way_out="Did you mean 'optimizer'?"),
    row(
        "return {'optimizer': optimizer, 'scheduler': scheduler}", "'scheduler'", way_out="Did you mean 'lr_scheduler'?"
    ),
    row("return {'optimizer': optimizer, 'schedulers': scheduler}", "'schedulers'", way_out="mean 'lr_scheduler'?"),
    row(
        "return {'optimizer': optimizer, 'lr_scheduler': scheduler, 'interval': 'step'}",
        "unknown key 'interval'",
        way_out="{'lr_scheduler': {'scheduler': scheduler, 'interval': ...}}",
    ),
    row("return {'optimizer': optimizer, 'monitor': 3}", "'monitor' is an int", way_out="such as 'val_loss'"),
    *(
        row(
            f"return {returned}",
            "One optimizer has 'frequency': 2",
            way_out="{'lr_scheduler': {'scheduler': scheduler, 'frequency': 2}}",
        )
        for returned in (
            "{'optimizer': optimizer, 'frequency': 2}",
            "{'optimizer': optimizer, 'lr_scheduler': scheduler, 'frequency': 2}",
            "[{'optimizer': optimizer, 'frequency': 2}]",
        )
    ),
    row("return [{'optimizer': optimizer, 'frequency': 0}]", "'frequency' is 0", way_out="1 or more"),
    row(
        "return [{'optimizer': optimizer, 'frequency': 2}, {'optimizer': second}]",
        "1 of 2 optimizers",
        way_out="'frequency': 1 for the others",
    ),
]

SCHEDULERS = [
    row("return [optimizer], [StepLR]", "the class StepLR itself", way_out="StepLR(optimizer, ...)"),
    row(
        "return [optimizer], [functools.partial(StepLR, step_size=1)]",
        "a partial",
        way_out="Make one: StepLR(optimizer, ...)",
    ),
    row("return [optimizer], ['cosine']", "'cosine'", "a str", way_out="StepLR(optimizer, ...)"),
    row("return [optimizer], [1e-3]", "0.001", "a float", way_out="StepLR(optimizer, ...)"),
    row("return [optimizer], [needs_epoch]", "NeedsEpoch.step(epoch)", way_out="Define lr_scheduler_step(self"),
    row("return [optimizer], [scheduler_of_other]", "StepLR", "drives a SGD", way_out="or return its optimizer too"),
    row("return [optimizer], [plateau]", "ReduceLROnPlateau", "no 'monitor'", way_out="'monitor': 'val_loss'"),
    row("return {'optimizer': optimizer, 'lr_scheduler': plateau}", "no 'monitor'", way_out="'monitor': 'val_loss'"),
    row("return [optimizer], [{'scheduler': plateau}]", "no 'monitor'", way_out="'monitor': 'val_loss'"),
    row("return [optimizer], [{'scheduler': scheduler, 'reduce_on_plateau': True}]", "StepLR", way_out="'val_loss'"),
    row("return [optimizer], [{'interval': 'step'}]", "no 'scheduler'", way_out="{'scheduler': scheduler, 'interval'"),
    row("return [optimizer], [{}]", "no 'scheduler'", way_out="{'scheduler': scheduler, 'interval'"),
    row(
        "return [optimizer], [{'scheduler': scheduler, 'intervall': 'step'}]", "'intervall'", way_out="mean 'interval'?"
    ),
    row("return [optimizer], [{'scheduler': scheduler, 'interval': 'batch'}]", "'batch'", way_out="'epoch' or 'step'"),
    row(
        "return [optimizer], [{'scheduler': scheduler, 'interval': 'steps'}]", "'steps'", way_out="Did you mean 'step'?"
    ),
    row("return [optimizer], [{'scheduler': scheduler, 'interval': 10}]", "10", "an int", way_out="'frequency': 3"),
    row("return [optimizer], [{'scheduler': scheduler, 'frequency': 0}]", "'frequency': 0", way_out="1 or more"),
    row("return [optimizer], [{'scheduler': scheduler, 'frequency': 0.5}]", "0.5", "a float", way_out="1 or more"),
    row("return [optimizer], [{'scheduler': scheduler, 'monitor': 1}]", "'monitor': 1", way_out="such as 'val_loss'"),
    row("return [optimizer], [{'scheduler': scheduler, 'strict': 'no'}]", "'strict': 'no'", way_out="True or False"),
    row("return [optimizer], [{'scheduler': scheduler, 'name': 1}]", "'name': 1", way_out="text, such as"),
]

MISTAKES = {
    "Arguments of the Trainer": ARGUMENTS,
    "Arguments of 1.x": OLD_ARGUMENTS,
    "Names, devices, and several at once": NAMES,
    "What configure_optimizers returns": OPTIMIZERS,
    "Schedulers": SCHEDULERS,
}


EVERYBODYS_NAMES = {
    "Accelerator": Accelerator,
    "Adam": Adam,
    "Logger": Logger,
    "Precision": Precision,
    "SGD": SGD,
    "StepLR": StepLR,
    "functools": functools,
    "math": math,
    "parse_optimizers": parse_optimizers,
    "timedelta": timedelta,
    "torch": torch,
}


class MyCallback(Callback):
    """A callback without state."""


class MyBar(Callback):
    role = "progress_bar"


class Stateful(Callback):
    def state_dict(self):
        return {"seen": 1}


class NeedsEpoch:
    """A scheduler as other libraries have them."""

    def step(self, epoch):
        raise AssertionError

    state_dict = load_state_dict = dict


class Net(LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(2, 2)


def message_of(mistake: Mistake) -> ConfigError:
    """Return the error that the user of a row sees."""
    net, other = Net(), Net()
    optimizer = SGD(net.layer.parameters(), lr=0.1)
    names: dict[str, Any] = {
        **EVERYBODYS_NAMES,
        "Trainer": Trainer,
        "MyCallback": MyCallback,
        "Stateful": Stateful,
        "my_callback": MyCallback(),
        "MyBar": MyBar,
        "my_bar": MyBar(),
        "my_logger": Logger(),
        "a_file": __file__,
        "self": net,
        "other": other,
        "optimizer": optimizer,
        "second": Adam(net.parameters()),
        "scheduler": StepLR(optimizer, 1),
        "plateau": ReduceLROnPlateau(optimizer),
        "scheduler_of_other": StepLR(SGD(other.parameters(), lr=0.1), 1),
        "needs_epoch": NeedsEpoch(),
    }
    code = re.sub(r"^return (.*)$", r"parse_optimizers((\1), self)", mistake.wrote, flags=re.DOTALL)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            eval(code, names)
        except ConfigError as error:
            return error
    raise AssertionError(f"no error for {mistake.wrote}")


ROWS = list(itertools.chain(*MISTAKES.values()))


@pytest.mark.parametrize("mistake", ROWS, ids=[mistake.wrote for mistake in ROWS])
def test_a_mistake_is_answered_with_its_name_its_value_and_the_way_out(mistake):
    if mistake in OLD_ARGUMENTS:
        pytest.importorskip("lt_compat", reason="it knows what old values meant")
    error = message_of(mistake)
    assert isinstance(error, mistake.kind), error
    for part in (*mistake.names, mistake.way_out):
        assert part in str(error), str(error)
    assert re.search(r"\[LT\d{3}\]$", str(error))


@pytest.mark.parametrize("mistake", ARGUMENTS, ids=[mistake.wrote for mistake in ARGUMENTS])
def test_a_wrong_value_is_no_type_error(mistake):
    assert (type(message_of(mistake)) is ConfigTypeError) == (mistake.kind is ConfigTypeError)


def test_the_page_in_the_docs_is_what_the_table_says():
    tool = Path(__file__).parents[2] / "tools" / "mistakes.py"
    if not tool.exists() or importlib.util.find_spec("lt_data") is None:
        pytest.skip("this is no checkout with all packages, whose words are on the page")
    written = runpy.run_path(str(tool))
    assert written["PAGE"].read_text("utf-8") == written["page"](), "run: python tools/mistakes.py"


def test_the_table_is_long_enough_and_has_no_row_twice():
    assert len(ROWS) >= 100
    assert len({mistake.wrote for mistake in ROWS}) == len(ROWS)
