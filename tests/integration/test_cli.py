"""The `lt` command with the real Trainer, callbacks and loggers; projects and packages as `lt new` writes them."""

import contextlib
import importlib.util
import inspect
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
import yaml
from tests import processes, warm

from lt_cli.commands.new import create
from lt_cli.help.outline import TRAINING, outline
from lt_cli.help.page import plain, short_type
from lt_cli.main import main
from lt_cli.training import TrainingCommand
from lt_core.errors import LogError
from lt_loops import Trainer
from lt_loops.arguments.table import ARGUMENTS, Settings

USERS = """
import torch
from torch.utils.data import DataLoader, TensorDataset

from lt import LightningDataModule, LightningModule


class Net(LightningModule):
    def __init__(self, lr: float = 0.1, batch_size: int = 1):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(4, 1)

    def training_step(self, batch, batch_idx):
        loss = self.layer(batch[0]).square().mean()
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.layer(batch[0]).square().mean())

    test_step = validation_step

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=self.hparams.lr)


class Data(LightningDataModule):
    def __init__(self, batch_size: int = 8):
        super().__init__()
        self.batch_size = batch_size

    def train_dataloader(self):
        return DataLoader(TensorDataset(torch.ones(32, 4)), batch_size=self.batch_size)

    val_dataloader = test_dataloader = train_dataloader
"""
QUIET = ("--trainer.accelerator=cpu", "--trainer.enable_progress_bar=false", "--trainer.enable_model_summary=false")
BASE = ("--model=project_of_users.Net", "--data=project_of_users.Data", "--trainer.max_epochs=1", *QUIET)


@pytest.fixture
def here(tmp_path, monkeypatch):
    (tmp_path / "project_of_users.py").write_text(USERS)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    yield tmp_path
    sys.modules.pop("project_of_users", None)


def test_a_fit_leaves_metrics_checkpoint_and_configuration(here):
    assert main(["fit", *BASE, "--trainer.logger=csv", "--model.lr=0.25"]) == 0
    (run,) = (here / "lightning_logs").iterdir()
    names = {path.name for path in run.rglob("*")}
    assert {"metrics.csv", "hparams.yaml", "config.yaml", "checkpoints"} <= names
    assert yaml.safe_load((run / "config.yaml").read_text())["model"]["init_args"]["lr"] == 0.25
    assert main(["test", "--config", str(run / "config.yaml"), "--trainer.logger=false"]) == 0


@pytest.mark.parametrize("name", ["EarlyStopping", "early_stopping", "lt_callbacks.EarlyStopping"])
def test_a_callback_is_named_by_class_plugin_or_path(here, name):
    words = (
        f"--trainer.callbacks+={name}",
        "--trainer.callbacks.monitor=val_loss",
        "--trainer.callbacks+=LearningRateMonitor",
    )
    main(["fit", *BASE, *words, "--trainer.logger=csv", "--trainer.enable_checkpointing=false"])
    saved = yaml.safe_load((here / "lightning_logs" / "version_0" / "config.yaml").read_text())["trainer"]["callbacks"]
    assert [callback["class_path"] for callback in saved] == [
        "lt_callbacks.EarlyStopping",
        "lt_callbacks.LearningRateMonitor",
    ]


def test_links_are_given_on_the_command_line(here):
    link = "--link=data.init_args.batch_size=model.init_args.batch_size"
    main(["fit", *BASE, link, "--data.batch_size=16", "--trainer.logger=csv", "--trainer.enable_checkpointing=false"])
    saved = (here / "lightning_logs" / "version_0" / "hparams.yaml").read_text()
    assert yaml.safe_load(saved)["batch_size"] == 16


def test_explain_says_what_a_fit_would_do_on_other_hardware(here, capsys):
    assert main(["explain", *BASE, "--devices=4", "--num_nodes=2"]) == 0
    shown = capsys.readouterr().out
    assert "8 ranks" in shown
    assert "8 per rank" in shown
    assert "Memory (GB on each rank, without activations): 5 parameters, whole on each rank" in shown
    assert "activations of a batch: <0.001 more" in shown
    assert not (here / "lightning_logs").exists()


def test_explain_knows_accelerators_and_strategies_that_are_not_here(here, capsys):
    assert main(["explain", *BASE, "--devices=4", "--accelerator=cuda", "--strategy=fsdp"]) == 0
    out = capsys.readouterr().out
    assert "rank 3  cuda:3    data shard 4 of 4" in out
    assert "device mesh: data_parallel 4" in out
    words = ["--trainer.strategy=pipeline", "--trainer.strategy.micro_batches=2", "--trainer.devices=4"]
    assert main(["explain", *BASE, *words]) == 0
    assert "device mesh: pipeline 4" in capsys.readouterr().out


def test_explain_takes_the_configuration_of_a_run(here, capsys):
    main(["fit", *BASE, "--trainer.logger=csv"])
    assert main(["explain", "--config=lightning_logs/version_0/config.yaml"]) == 0
    assert "1 rank" in capsys.readouterr().out


def test_simulate_runs_every_rank_of_a_fit_here_and_leaves_nothing(here, capsys):
    words = ["--trainer.devices=4", "--trainer.num_nodes=2", "--trainer.strategy=ddp"]
    assert main(["simulate", *BASE, *words]) == 0
    shown = capsys.readouterr().out
    assert "rank 7: part 8 of 8 of the data" in shown
    assert "All of these ranks reach the end." in shown
    assert not (here / "lightning_logs").exists()


def test_predictions_are_saved_where_the_user_says(here, capsys):
    source = USERS.replace(
        "test_step = validation_step", "def predict_step(self, batch, i): return self.layer(batch[0])"
    )
    (here / "project_of_users.py").write_text(source + "\n    predict_dataloader = train_dataloader\n")
    words = ("--trainer.logger=false", "--output=new/folder/out.pt")
    assert main(["predict", *BASE, *words]) == 0
    assert [part.shape for part in torch.load("new/folder/out.pt")] == [(8, 1)] * 4
    assert main(["predict", *BASE, words[0]]) == 0
    assert "--output predictions.pt saves them" in capsys.readouterr().out


@pytest.mark.parametrize("logger", ["csv", "tensorboard", "jsonl"])
@pytest.mark.parametrize("checkpoint", ["last", "best", "lightning_logs/version_0/checkpoints/last.ckpt"])
@pytest.mark.parametrize("command", ["validate", "test"])
def test_a_test_of_a_run_is_a_run_below_it_and_touches_none_of_its_files(here, command, checkpoint, logger):
    saves = ["--trainer.callbacks+=ModelCheckpoint", "--trainer.callbacks.save_last=true"]
    assert main(["fit", *BASE, f"--trainer.logger={logger}", *saves]) == 0
    run = here / "lightning_logs" / "version_0"
    before = {path: path.read_bytes() for path in run.rglob("*") if path.is_file()}
    if checkpoint == "best":
        checkpoint = next(str(path) for path in before if path.name.startswith("epoch"))
    for _ in range(2):
        assert main([command, *BASE, f"--trainer.logger={logger}", f"--ckpt_path={checkpoint}"]) == 0
    assert [path.name for path in (here / "lightning_logs").iterdir()] == ["version_0"]
    assert {path: path.read_bytes() for path in before} == before
    written = {path.relative_to(run).parts[0] for path in run.rglob("*") if path.is_file() and path not in before}
    assert written == {command}
    assert (run / command / f"config-{command}.yaml").is_file()
    step = torch.load(run / "checkpoints" / "last.ckpt", weights_only=True)["global_step"]
    assert step
    if logger == "jsonl":
        rows = [json.loads(line) for line in (run / command / "metrics.jsonl").read_text().splitlines()]
        assert [row["step"] for row in rows] == [step, step]


def test_a_test_without_a_checkpoint_says_whose_weights_it_tests(here, capsys):
    assert main(["test", *BASE, "--trainer.logger=false"]) == 0
    assert "No --ckpt_path: the model keeps its initial weights" in capsys.readouterr().err


def test_an_error_without_lines_of_the_user_is_one_line(here, capsys):
    with pytest.raises(SystemExit) as end:
        main(["predict", *BASE])
    assert end.value.code == 1
    said = capsys.readouterr().err
    assert said.startswith("lt predict: error: predict needs Net.predict_step")
    assert said.count("\n") == 1


def test_an_error_in_the_users_code_keeps_its_traceback(here):
    (here / "project_of_users.py").write_text(USERS.replace("return loss", "self.log('x', 'text')"))
    with pytest.raises(LogError):
        main(["fit", *BASE])


@pytest.mark.parametrize("words", [("--data.batch_size=-3",), ("--config=run.yaml",)])
def test_an_error_about_an_argument_says_where_that_was_written(words, here):
    (here / "run.yaml").write_text("data:\n  class_path: project_of_users.Data\n  init_args: {batch_size: -3}\n")
    with pytest.raises(ValueError, match="batch_size=-3") as caught:
        main(["fit", *BASE, *words])
    where = "command line: data.batch_size" if "data" in words[0] else "run.yaml:3: data.init_args.batch_size"
    assert [note.strip() for note in caught.value.__notes__] == [where]


@pytest.mark.parametrize(
    ("words", "remedy"),
    {
        ("--trainer.epochs=3",): "Write max_epochs=3.",
        ("--trainer.patience=3",): "Write callbacks=EarlyStopping(monitor='val_loss', patience=3).",
        ("--trainer.callbacks=ModelCheckpoint", "--trainer.callbacks.save_total_limit=3"): "save_top_k=3",
        ("--trainer.strategy=zero3",): "Write strategy='fsdp'",
        ("epochs.yaml",): "Write --config epochs.yaml.",
    }.items(),
)
def test_a_word_of_another_trainer_is_answered_with_ours(words, remedy, here, capsys):
    with pytest.raises(SystemExit):
        main(["fit", *BASE, *words])
    assert remedy in capsys.readouterr().err


def test_a_value_that_the_trainer_refuses_is_told_with_its_place(here, capsys):
    (here / "run.yaml").write_text("trainer:\n  max_epochs: -7\n")
    with pytest.raises(SystemExit) as end:
        main(["fit", "--model=project_of_users.Net", "--config=run.yaml"])
    assert end.value.code == 2
    assert "run.yaml:2: trainer.max_epochs" in capsys.readouterr().err


def test_a_misspelt_environment_variable_is_told(here, monkeypatch):
    monkeypatch.setenv("LT_FIT__TRAINER__MAX_EPOHS", "3")
    with pytest.warns(UserWarning, match=r"Did you mean 'LT_FIT__TRAINER__MAX_EPOCHS'.*LT161"):
        main(["fit", *BASE, "--trainer.fast_dev_run=true"])


def test_a_warning_is_one_line_without_places_inside_lt(here):
    words = ("--optimizer=Adam", "--trainer.fast_dev_run=true", *BASE)
    done = subprocess.run(
        [sys.executable, "-m", "lt_cli.main", "fit", *words], cwd=here, capture_output=True, text=True, check=True
    )
    assert done.stderr.startswith("lt fit: warning: Net.configure_optimizers is not used")
    assert "lightning_cli.py" not in done.stderr


def test_the_metrics_of_a_run_are_drawn(here):
    pytest.importorskip("matplotlib")
    main(["fit", *BASE, "--trainer.logger=tensorboard", "--trainer.log_every_n_steps=1"])
    assert main(["plot"]) == 0
    assert (here / "lightning_logs" / "version_0" / "metrics.png").stat().st_size > 5000


def test_a_checkpoint_of_a_run_is_shown(here, capsys):
    main(["fit", *BASE])
    (file,) = (here / "lightning_logs").rglob("*.ckpt")
    assert main(["ckpt", "show", str(file), "--json"]) == 0
    shown = json.loads(capsys.readouterr().out.partition("{")[2].join(["{", ""]))
    assert (shown["step"], shown["resumes"]) == (4, "exactly")


@pytest.mark.fsdp
@pytest.mark.ddp
def test_a_sharded_checkpoint_is_shown_and_made_one_file(here):
    sharded = ("--trainer.strategy=fsdp", "--trainer.strategy.state_dict_type=sharded", "--trainer.devices=2")
    run_in(here, "-m", "lt_cli.main", "fit", *BASE, *sharded, "--trainer.logger=false", run=warm.run)
    (folder,) = here.glob("checkpoints/*.ckpt")
    assert main(["ckpt", "verify", str(folder)]) == 0
    assert main(["ckpt", "convert", str(folder), "whole.ckpt"]) == 0
    assert set(torch.load("whole.ckpt", weights_only=True)["state_dict"]) == {"layer.weight", "layer.bias"}
    assert main(["fit", *BASE, "--trainer.max_epochs=3", "--trainer.logger=false", "--ckpt_path=whole.ckpt"]) == 0


def test_completion_knows_arguments_names_and_commands(capsys):
    assert main(["completion", "bash"]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("--trainer.max_epochs", "early_stopping", "migrate", "--write"))


# ---- help ------------------------------------------------------------------------------------------------------------


def test_help_is_one_screen_and_needs_no_torch():
    code = (
        "import sys; from lt_cli.main import main; main(['fit', '--help']);"
        "sys.exit(bool({'torch', 'jsonargparse'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert "--trainer.max_epochs" in shown
    assert len(shown.splitlines()) < 45


class Parsers(TrainingCommand):
    """The parser of a subcommand of ``lt``, unused."""

    def __init__(self, command):
        with contextlib.suppress(SystemExit):
            super().__init__([command])

    def parse_arguments(self, parser, args):
        raise SystemExit


@pytest.fixture(scope="module")
def parsers():
    return {command: Parsers(command)._subcommand_parsers[command] for command in TRAINING}


@pytest.mark.parametrize("command", TRAINING)
def test_the_page_shows_the_arguments_that_the_parser_takes(parsers, command):
    shown = {row.flag for row in outline(command)[1]}
    assert shown - {"--link"} == {row.flag for row in parsers[command]._lt_rows()} | {"--print_config"}


@pytest.mark.parametrize("name", [name for name, argument in ARGUMENTS.items() if argument.parameter])
def test_an_argument_is_shown_as_the_table_of_the_trainer_has_it(parsers, name):
    (row,) = [row for row in outline("fit")[1] if row.flag == f"--trainer.{name}"]
    (parsed,) = [each for each in parsers["fit"]._lt_rows() if each.flag == row.flag]
    said = re.search(rf"^    {name}: (.*(?:\n        .*)*)", inspect.getdoc(Trainer), re.MULTILINE)[1]
    assert plain(row.doc) == plain(parsed.doc) == plain(said)
    default = getattr(Settings(), name)
    if default not in (None, [], (), str(Path.cwd())):
        assert plain(row.doc).replace('"', "").endswith(f"default: {default}.")
    annotation = inspect.signature(Trainer.__init__).parameters[name].annotation
    assert short_type(row.type) == short_type(annotation)


def test_names_for_an_argument_are_listed(capsys):
    assert main(["fit", "--trainer.callbacks.help"]) == 0
    shown = capsys.readouterr().out
    assert "early_stopping (EarlyStopping)" in shown
    assert "Ends training when" in shown


def test_a_registered_name_has_the_help_of_its_class(capsys):
    for words in (["--trainer.callbacks.help", "early_stopping"], ["--trainer.callbacks.help=early_stopping"]):
        with pytest.raises(SystemExit) as left:
            main(["fit", *words])
        assert left.value.code == 0
        assert "--trainer.callbacks.patience" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        main(["fit", "--trainer.strategy.help", "ddp_spawn"])
    assert "'ddp_spawn' has no arguments; its name is all of it. [LT154]" in capsys.readouterr().err


# ---- lt new ----------------------------------------------------------------------------------------------------------


def run_in(folder, *command, run=processes.run, **environment):
    variables = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    done = run([sys.executable, *command], cwd=folder, env=variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    return done.stdout


def test_a_new_project_passes_its_own_tests(tmp_path):
    folder = create("project", "spirals_of_a_test", tmp_path)
    assert "3 passed" in run_in(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider")


def test_a_new_project_trains_at_once(tmp_path):
    folder = create("project", "spirals_of_a_test", tmp_path)
    shown = run_in(folder, "-m", "lt_cli.main", "fit", "--config", "run.yaml", "--trainer.max_epochs", "1")
    assert "Checkpoints in" in shown
    assert list(folder.glob("lightning_logs/version_0/config.yaml"))


def pass_the_kit(kind, parent, *words):
    """Write a package of this kind, and run its tests as if it were installed."""
    folder = create(kind, "of_a_test", parent)
    project = tomllib.loads((folder / "pyproject.toml").read_text())["project"]
    ((group, names),) = project["entry-points"].items()
    info = folder / "src" / f"lt_{kind}_of_a_test-0.1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\nof_a_test = {names['of_a_test']}\n")
    shown = run_in(folder, "-m", "pytest", "-q", "-p", "no:cacheprovider", *words, PYTHONPATH=str(folder / "src"))
    assert " passed" in shown
    assert "failed" not in shown


@pytest.mark.conformance
@pytest.mark.ddp
def test_a_new_strategy_passes_the_kit(tmp_path):
    pass_the_kit("strategy", tmp_path, "-k", "1-ranks or 2-ranks")


@pytest.mark.ddp
def test_a_new_launcher_passes_the_kit(tmp_path):
    pass_the_kit("launcher", tmp_path)


@pytest.mark.parametrize("kind", ["accelerator", "callback", "checkpoint", "logger", "step"])
def test_a_new_part_passes_its_kit(kind, tmp_path):
    pass_the_kit(kind, tmp_path)


# ---- lt.compat -------------------------------------------------------------------------------------------------------

SCRIPT = """
import importlib.metadata
import sys

import lightning as L
import lightning.pytorch
import pytorch_lightning as pl
from lightning.fabric.utilities.types import _PATH
from lightning.pytorch.callbacks import EarlyStopping
from lightning.pytorch.demos.boring_classes import BoringModel
from lightning.pytorch.trainer.connectors.accelerator_connector import _AcceleratorConnector
from lightning.pytorch.trainer.states import RunningStage
from lightning.pytorch.utilities.imports import _TORCH_GREATER_EQUAL_2_1
from pytorch_lightning.callbacks import *
from pytorch_lightning.callbacks.early_stopping import EarlyStopping as Same

import lt

assert EarlyStopping is Same is lt.callbacks.EarlyStopping
assert L.LightningModule is pl.LightningModule is lightning.pytorch.LightningModule is lt.LightningModule
assert issubclass(pl.Trainer, lt.Trainer) and L.pytorch.Trainer is pl.Trainer
assert ModelCheckpoint is lt.callbacks.ModelCheckpoint
assert importlib.metadata.version("lightning") == pl.__version__ and _TORCH_GREATER_EQUAL_2_1
for missing in ("from lightning import Fabrik", "import pytorch_lightning.nowhere"):
    try:
        exec(missing)
    except ImportError:
        continue
    raise SystemExit(missing)


class Watch(pl.Callback):
    stages = []

    def on_train_start(self, trainer, *args):
        assert trainer.fit_loop.epoch_loop.val_loop._data_source.is_defined()
        flags = _AcceleratorConnector(accelerator="cpu")
        assert (flags._accelerator_flag, flags._devices_flag) == ("cpu", 1)
        assert trainer.policy.loaders_before_hooks

    def on_train_batch_start(self, trainer, *args):
        self.stages.append((trainer.state.fn == "fit", trainer.state.stage == RunningStage.TRAINING))


if __name__ == "__main__":
    options = dict(logger=False, enable_checkpointing=False, enable_progress_bar=False, enable_model_summary=False)
    trainer = pl.Trainer(max_epochs=1, accelerator="cpu", callbacks=[Watch()], **options, **eval(sys.argv[1]))
    trainer.fit(BoringModel())
    ended = (trainer.global_step, trainer.world_size, set(Watch.stages), len(sys.argv))
    print("{} {} {} {}\\n".format(*ended), end="")  # in one write: the lines of two ranks do not mix
"""


@pytest.mark.skipif(importlib.util.find_spec("lightning") is not None, reason="its version is that of the real one")
def test_a_script_written_for_lightning_runs_unchanged(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    assert run_in(tmp_path, "-m", "lt.compat", "script.py", "{}").split("\n")[-2] == "64 1 {(True, True)} 2"


@pytest.mark.ddp
def test_further_ranks_and_spawned_processes_answer_the_names_too(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    for strategy in ("ddp", "ddp_spawn"):
        shown = run_in(tmp_path, "-m", "lt.compat", "script.py", f"dict(devices=2, strategy={strategy!r})")
        assert "32 2 " in shown


PICKLES = """
import pytorch_lightning as pl
import torch


class Taste:
    salt = 3


class Net(pl.LightningModule):
    def __init__(self, taste=None):
        super().__init__()
        self.save_hyperparameters()
        self.layer = torch.nn.Linear(2, 1)

    def training_step(self, batch, batch_idx):
        return self.layer(batch).sum()

    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

    def train_dataloader(self):
        return torch.utils.data.DataLoader(torch.ones(2, 2))


quiet = dict(logger=False, enable_progress_bar=False, enable_model_summary=False)
trainer = pl.Trainer(max_steps=1, accelerator="cpu", **quiet)
trainer.fit(Net(Taste()))
path = trainer.checkpoint_callback.best_model_path
assert type(torch.load(path, weights_only=False)["hyper_parameters"]["taste"]) is Taste
with torch.serialization.safe_globals([Taste]):  # what a package allows torch to read holds for lt.compat too
    Net.load_from_checkpoint(path, weights_only=True)
print(Net.load_from_checkpoint(path).hparams.taste.salt)
"""


def test_objects_in_checkpoints_are_kept_where_that_was_asked_for(tmp_path):
    (tmp_path / "script.py").write_text(PICKLES)
    assert run_in(tmp_path, "-m", "lt.compat", "--pickle", "script.py").rstrip().endswith("3")
    done = subprocess.run(
        [sys.executable, "-m", "lt.compat", "script.py"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode != 0  # plain data only, where it was not


def test_compat_comes_before_lightning(tmp_path):
    (tmp_path / "lightning").mkdir()
    (tmp_path / "lightning" / "__init__.py").write_text("")
    late = (
        "import lightning, lt.compat\ntry:\n    lt.compat.install()\nexcept RuntimeError as error:\n    print(error)\n"
    )
    assert "imported already" in run_in(tmp_path, "-c", late)


def test_a_script_that_is_not_there_is_told(tmp_path):
    code = "import lt.compat, sys; sys.exit(lt.compat.main(['nowhere.py']) != 2)"
    run_in(tmp_path, "-c", code)
    assert not Path(tmp_path, "nowhere.py").exists()


@pytest.fixture
def path(here):
    """Return a checkpoint of the user's net with another ``batch_size`` than the default."""
    weights = torch.nn.Linear(4, 1).state_dict()
    tree = {
        "hyper_parameters": {"lr": 0.1, "batch_size": 5},
        "pytorch-lightning_version": "2.5.0",
        "optimizer_states": [],
    }
    torch.save({**tree, "state_dict": {f"layer.{name}": value for name, value in weights.items()}}, here / "made.ckpt")
    return here / "made.ckpt"


@pytest.mark.parametrize("command", ["test", "validate"])
def test_what_nobody_wrote_is_as_the_checkpoint_holds_it(command, path):
    assert TrainingCommand([command, *BASE, f"--ckpt_path={path}"]).model.hparams.batch_size == 5


def test_a_fit_goes_on_with_what_nobody_wrote_as_the_checkpoint_holds_it(here):
    assert main(["fit", *BASE, "--model.batch_size=5"]) == 0
    made = next(here.rglob("*.ckpt"))
    cli = TrainingCommand(["fit", *BASE, "--trainer.max_epochs=2", f"--ckpt_path={made}"])
    assert cli.model.hparams.batch_size == 5
    configs = [yaml.safe_load(file.read_text()) for file in here.rglob("config*.yaml")]
    assert [config["model"]["init_args"]["batch_size"] for config in configs] == [5] * len(configs)


def test_a_default_in_place_of_what_a_checkpoint_named_by_a_word_holds_is_an_error(here, capsys):
    assert main(["fit", *BASE, "--model.batch_size=5"]) == 0
    with pytest.raises(SystemExit):
        main(["test", *BASE, "--ckpt_path=last"])
    told = " ".join(capsys.readouterr().err.split())
    assert "made with batch_size=5 (here the default 1)" in told
    assert "Write it (--model.batch_size ...)" in told
    assert "[LT914]" in told


@pytest.mark.parametrize(
    "written",
    [
        ["--model.batch_size=1"],
        ["--model={class_path: project_of_users.Net, init_args: {batch_size: 2}}"],
        ["--data.batch_size=3", "--link=data.init_args.batch_size=model.init_args.batch_size"],
    ],
)
def test_what_was_written_counts_over_what_the_checkpoint_holds(written, path):
    assert main(["test", *BASE, *written, f"--ckpt_path={path}"]) == 0


def test_a_link_whose_source_is_a_default_names_the_source(path, capsys):
    link = "--link=data.init_args.batch_size=model.init_args.batch_size"
    with pytest.raises(SystemExit):
        main(["test", *BASE, link, f"--ckpt_path={path}"])
    assert "(--data.batch_size ...)" in capsys.readouterr().err


def test_the_configuration_of_a_run_tests_its_checkpoint(here):
    assert main(["fit", *BASE, "--model.batch_size=5", "--trainer.default_root_dir=made"]) == 0
    made = next(here.rglob("*.ckpt"))
    assert main(["test", "--config", str(made.parents[1] / "config.yaml"), f"--ckpt_path={made}"]) == 0


@pytest.mark.parametrize("place", ["lt.strategies", "lt_parallel", "lt_parallel.fsdp", "lt_strategies.fsdp"])
@pytest.mark.parametrize(
    ("name", "given", "mesh"),
    [
        ("ModelParallel", "{tensor_parallel_size: 2}", "data_parallel 2 x tensor_parallel 2"),
        ("FSDP", "{state_dict_type: sharded}", "data_parallel 4"),
    ],
)
def test_a_strategy_of_shards_is_found_by_each_of_its_places(here, capsys, place, name, given, mesh):
    strategy = f"strategy: {{class_path: {place}.{name}, init_args: {given}}}"
    (here / "run.yaml").write_text(f"trainer:\n  accelerator: cpu\n  devices: 4\n  {strategy}\n")
    assert main(["explain", *BASE, "--config=run.yaml"]) == 0
    assert f"device mesh: {mesh}\n" in capsys.readouterr().out
