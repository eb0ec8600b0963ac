"""Names of Lightning under `lt.compat`: every public one of 2.6 is answered, from whatever path it is imported."""

import json
import pickle
import signal
import sys
import types
import warnings
from collections.abc import Callable, Iterator
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from tests import processes

import lt
from lt_compat import install
from lt_compat.names.stand_ins import is_stand_in, modules
from lt_core.errors import CheckpointError, ConfigError, LogError, RankError
from lt_loops import Trainer
from lt_strategies import DDP

QUIET = {
    "accelerator": "cpu",
    **dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False),
}


@pytest.fixture
def name() -> Iterator[Callable[[str], Any]]:
    """What `from lightning.pytorch.<path> import <name>` brings; afterwards Lightning's names are gone again."""
    before = {module for module in sys.modules if module.startswith("lightning")}
    finders = [*sys.meta_path]
    install()

    def look_up(place: str) -> Any:
        path, _, wanted = place.rpartition(":")
        return getattr(import_module(f"lightning.pytorch.{path}".rstrip(".")), wanted)

    yield look_up
    sys.meta_path[:] = finders
    for module in {module for module in sys.modules if module.startswith("lightning")} - before:
        del sys.modules[module]


def test_every_public_name_of_2_6_is_answered_and_every_constant_has_a_value(name):
    for path, names in modules().items():
        for each in names:
            try:
                value = name(f"{path}:{each}")
            except (AttributeError, ImportError):  # of Fabric
                value = getattr(import_module(f"lightning.fabric.{path}".rstrip(".")), each)
            assert not (each.isupper() and each != "MNIST" and is_stand_in(value)), f"{path}:{each}"


def test_a_name_without_a_counterpart_says_what_to_use_when_it_is_made_and_not_before(name):
    deepspeed = name("strategies:DeepSpeedStrategy")
    assert not isinstance(DDP(), deepspeed)
    with pytest.raises(ConfigError, match=r"no DeepSpeedStrategy: write strategy='fsdp'.*LT916"):
        deepspeed(stage=3)


@pytest.mark.parametrize(
    ("place", "module"),
    [
        ("cli:Namespace", "jsonargparse"),
        ("cli:ArgumentParser", "jsonargparse"),
        ("cli:ActionConfigFile", "jsonargparse"),
        ("loggers.logger:Namespace", "argparse"),
        ("core.module:Tensor", "torch"),
        ("callbacks.finetuning:ModuleDict", "torch.nn"),
        ("callbacks.callback:Optimizer", "torch.optim"),
        ("core.datamodule:DataLoader", "torch.utils.data"),
        ("callbacks.model_checkpoint:Path", "pathlib"),
        ("utilities.types:Union", "typing"),
        ("callbacks.spike:Mapping", "collections.abc"),
    ],
)
def test_a_name_that_a_module_of_lightning_only_imports_is_that_of_its_origin(name, place, module):
    assert name(place) is getattr(import_module(module), place.rpartition(":")[2])


@pytest.mark.parametrize(
    "place",
    [
        "plugins:_PLUGIN_INPUT",
        "plugins.precision.deepspeed:_PRECISION_INPUT",
        "trainer.connectors.accelerator_connector:_LITERAL_WARN",
        "trainer.connectors.logger_connector.logger_connector:_PBAR_DICT",
        "utilities.types:_NUMBER",
        "callbacks.pruning:_PARAM_LIST",
    ],
)
def test_a_private_alias_of_types_is_any_type(name, place):
    assert name(place) is Any
    assert name(place) | None


@pytest.mark.parametrize(
    ("path", "local"),
    [("logs", True), ("/logs", True), (".", True), ("file:///logs", True), ("s3://logs", False), ("gs://a/b", False)],
)
def test_a_path_is_local_or_not_as_lightning_says(name, path, local):
    is_local = import_module("lightning.fabric.utilities.cloud_io")._is_local_file_protocol
    assert is_local(path) is local


def test_a_constructor_under_lightnings_decorator_reads_the_environment_once(name, monkeypatch):
    monkeypatch.setenv("PL_TRAINER_MAX_EPOCHS", "3")

    class Mine(name(":Trainer")):
        @name("utilities.argparse:_defaults_from_env_vars")
        def __init__(self, mine=1, **arguments):
            super().__init__(**arguments)
            self.mine = mine

    assert (Mine(mine=2, **QUIET).max_epochs, Mine(**QUIET, max_epochs=5).max_epochs) == (3, 5)


@pytest.mark.parametrize("place", [":Tensor", "core.module:NoClass", "core.module:compile"])
def test_other_names_are_import_errors(name, place):
    with pytest.raises(AttributeError, match="LT168"):
        name(place)


def test_a_private_name_that_nobody_answers_is_an_import_error_with_the_way_of_lt(name):
    with pytest.raises(AttributeError, match="lt has no counterpart of .*_get_full_state_dict_context.*LT168"):
        name("strategies.fsdp:_get_full_state_dict_context")


def test_code_that_asks_for_a_module_without_a_counterpart_is_told_that_there_is_none(name):
    package = name(":__name__")
    for wanted in ("metrics", "utilities.xla_device", "nothing_of_this_name"):
        assert find_spec(f"{package}.{wanted}") is None
    with pytest.raises(AttributeError, match=r"lt has no counterpart of .*metrics: .*torchmetrics. \[LT168\]"):
        name(":metrics")


@pytest.mark.parametrize(
    "line",
    [
        "import pytorch_lightning.metrics",
        "import pytorch_lightning.metrics.functional",
        "from pytorch_lightning.metrics import Accuracy",
        "from pytorch_lightning import metrics",
    ],
)
def test_a_script_that_ends_for_a_module_without_a_counterpart_says_the_way_of_lt(line, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(line)
    done = processes.run(
        [sys.executable, "-m", "lt.compat", script], capture_output=True, text=True, check=False, timeout=300
    )
    last = done.stderr.splitlines()[-1]
    assert last.startswith("lt has no counterpart of pytorch_lightning.metrics: "), done.stderr
    assert last.endswith("torchmetrics. [LT168]")


def test_a_package_that_overrides_load_from_checkpoint_reads_the_file_by_lightnings_helper(name, tmp_path):
    from lt.demos import BoringModel

    class Rereading(BoringModel):
        @classmethod
        def load_from_checkpoint(cls, checkpoint_path, **kwargs):
            return name("core.saving:_load_from_checkpoint")(cls, checkpoint_path, **kwargs)

    model, trainer = Rereading(), Trainer(max_steps=1, **QUIET)
    trainer.fit(model)
    trainer.save_checkpoint(tmp_path / "model.ckpt")
    again = Rereading.load_from_checkpoint(tmp_path / "model.ckpt")
    assert all(map(torch.equal, again.state_dict().values(), model.state_dict().values()))


def test_the_same_class_comes_from_every_path(name):
    assert name("plugins.environments.slurm:SLURMEnvironment") is name("plugins.environments:SLURMEnvironment")
    assert name("plugins.precision.precision:Precision") is name("plugins:Precision")
    assert isinstance(lt.plugins.MixedPrecision(), name("plugins:Precision"))


# ---- constructors with the incumbent's arguments ---------------------------------------------------------------------


def test_what_lightning_gives_to_a_strategy_reaches_the_trainer(name):
    io, environment = name("plugins.io:TorchCheckpointIO")(), name("plugins.environments:LightningEnvironment")()
    devices = [torch.device("cpu")] * 2
    strategy = name("strategies:DDPStrategy")(
        parallel_devices=devices, cluster_environment=environment, checkpoint_io=io, find_unused_parameters=True
    )
    trainer = name(":Trainer")(**{**QUIET, "strategy": strategy})
    assert trainer.strategy.checkpoint_io is io
    assert trainer.strategy.parallel_devices == devices
    assert trainer.world_size == 2
    assert trainer.strategy.ddp_arguments["find_unused_parameters"]


def test_a_strategy_made_by_name_is_one_of_lightnings_class(name):
    trainer = name(":Trainer")(**QUIET, strategy="ddp", devices=2)
    assert isinstance(trainer.strategy, name("strategies:DDPStrategy"))
    assert not isinstance(trainer.strategy, name("strategies:FSDPStrategy"))


def test_a_strategy_survives_the_way_to_another_process(name):
    trainer = name(":Trainer")(**QUIET, strategy=name("strategies:SingleDeviceStrategy")(device="cpu"))
    assert type(pickle.loads(pickle.dumps(trainer.strategy))).__name__ == "SingleDeviceStrategy"


def test_mixed_precision_takes_lightnings_arguments(name):
    mixed = name("plugins:MixedPrecision")
    assert mixed("16-mixed", "cpu").name == mixed("16-mixed", "cuda").precision == "16-mixed"
    assert name("plugins:DoublePrecision")().precision == "64-true"
    assert name("plugins:HalfPrecision")("bf16-true").precision == "bf16-true"
    assert name(":Trainer")(**QUIET, plugins=[mixed("bf16-mixed", "cpu")]).precision_plugin.precision == "bf16-mixed"
    assert isinstance(name(":Trainer")(**QUIET, precision="bf16-mixed").precision_plugin, mixed)


def test_all_strategy_names_of_lightning_are_installed_but_those_of_deepspeed(name):
    ways = ("ddp", "ddp_spawn", "ddp_fork", "ddp_notebook")
    unused = [f"{way}_find_unused_parameters_{flag}" for way in ways for flag in ("true", "false")]
    known = name("strategies:StrategyRegistry").available_strategies()
    assert {*ways, *unused, "fsdp", "fsdp_cpu_offload", "single_device", "xla", "xla_debug", "single_xla"} <= {*known}


@pytest.mark.parametrize(("place", "own"), [("strategies:Strategy", "ddp"), ("accelerators:Accelerator", "cpu")])
def test_a_registry_is_a_dict_of_the_names_of_users_and_of_packages(name, place, own):
    registry = name(f"{place}Registry")
    registry.register("of_a_user", dict, "found")
    try:
        names = [*registry]
        assert {own, "of_a_user"} <= {*names}
        assert [*registry.keys()] == [*dict(registry)] == [each for each, _ in registry.items()] == names
        assert [*registry.values()] == [registry[each] for each in names]
        assert len(registry.items()) == len(registry) == len(names)
        assert str(registry) == repr(registry) == f"Registered {place.split(':')[0].title()}: {', '.join(names)}"
    finally:
        registry.remove("of_a_user")


def test_a_strategy_that_a_user_registers_is_found_by_its_name(name):
    registry = name("strategies:StrategyRegistry")
    registry.register("searching", name("strategies:DDPStrategy"), "looks", find_unused_parameters=True)
    try:
        trainer = name(":Trainer")(**QUIET, strategy="searching", devices=2)
        assert trainer.strategy.ddp_arguments["find_unused_parameters"]
    finally:
        registry.remove("searching")


def test_an_environment_written_for_lightning_says_which_process_this_is(name):
    class Cluster(name("plugins.environments:ClusterEnvironment")):
        creates_processes_externally = True
        main_address, main_port = "127.0.0.1", 29500

        def world_size(self) -> int:
            return 2

        def global_rank(self) -> int:
            return 1

        local_rank = global_rank

    trainer = name(":Trainer")(**QUIET, strategy="ddp", devices=2, plugins=[Cluster()])
    assert (trainer.global_rank, trainer.world_size) == (1, 2)
    assert trainer.strategy.cluster_environment.main_port == 29500


def test_detect_says_whether_it_is_this_environment(name, monkeypatch):
    slurm = name("plugins.environments:SLURMEnvironment")
    assert not slurm.detect()
    for key, value in {"PROCID": "1", "NTASKS": "2", "STEP_NUM_TASKS": "2", "LOCALID": "1", "JOB_ID": "7"}.items():
        monkeypatch.setenv(f"SLURM_{key}", value)
    assert slurm.detect()
    assert slurm(auto_requeue=False).global_rank() == 1
    assert name("plugins.environments:LightningEnvironment").detect()


def test_the_cluster_environment_is_one_of_lightnings_classes_and_knows_the_job_before_it_runs(name):
    trainer = name(":Trainer")(**QUIET, strategy="ddp", devices=2)
    environment = trainer.strategy.cluster_environment
    assert isinstance(environment, name("plugins.environments:LightningEnvironment"))
    assert not isinstance(
        trainer._accelerator_connector.cluster_environment, name("plugins.environments:SLURMEnvironment")
    )
    assert (environment.world_size(), environment.creates_processes_externally) == (2, False)


# ---- the Trainer's parts ---------------------------------------------------------------------------------------------


def fitted(name: Callable[[str], Any], **arguments: Any) -> tuple[Any, Any]:
    limits = {"max_epochs": 1, "limit_train_batches": 2, "limit_val_batches": 1}
    trainer = name(":Trainer")(**{**QUIET, **limits, **arguments})
    model = name("demos.boring_classes:BoringModel")()
    trainer.fit(model)
    return trainer, model


def test_the_strategy_answers_with_what_lightnings_holds(name):
    trainer, model = fitted(name)
    strategy = trainer.strategy
    assert strategy.model is strategy.lightning_module is model
    assert strategy.optimizers == trainer.optimizers
    assert strategy.accelerator is trainer.accelerator
    assert strategy.precision_plugin.precision == "32-true"
    assert trainer._accelerator_connector.is_distributed is False
    with pytest.raises(AttributeError, match="LT917"):
        strategy.accelerator = None


def test_what_writes_and_the_number_format_can_be_set_between_runs(name, tmp_path):
    class Noting(name("plugins.io:TorchCheckpointIO")):
        def save_checkpoint(self, checkpoint, path, storage_options=None):
            written.append(path)
            super().save_checkpoint(checkpoint, path, storage_options)

    class Late(name("callbacks:Callback")):
        def on_train_start(self, trainer, pl_module):
            with pytest.raises(AttributeError, match="LT917"):
                trainer.strategy.precision_plugin = name("plugins:Precision")()

    written: list[Any] = []
    trainer = name(":Trainer")(max_epochs=1, limit_train_batches=2, callbacks=[Late()], **QUIET)
    trainer.strategy.checkpoint_io = io = Noting()
    trainer.strategy.precision_plugin = name("plugins:MixedPrecision")("bf16-mixed", "cpu")
    assert trainer.precision == "bf16-mixed"
    assert trainer.strategy.checkpoint_io is io
    model = name("demos.boring_classes:BoringModel")()
    seen: list[torch.dtype] = []
    model.layer.register_forward_hook(lambda layer, inputs, output: seen.append(output.dtype))
    trainer.fit(model)
    trainer.save_checkpoint(tmp_path / "x.ckpt")
    assert set(seen) == {torch.bfloat16}
    assert written == [str(tmp_path / "x.ckpt")]
    with pytest.raises(TypeError, match=r"expected a CheckpointIO, got 3.*LT148"):
        trainer.strategy.checkpoint_io = 3


def test_a_module_answers_for_its_trainer_without_an_error_where_there_is_none(name):
    class Asking(name(":LightningModule")):
        def training_step(self, batch, batch_idx):
            seen.append(self._trainer.max_steps)
            return self.layer(batch).sum()

    seen: list[int] = []
    model = Asking()
    model.layer = torch.nn.Linear(32, 2)
    model.configure_optimizers = lambda: torch.optim.SGD(model.parameters(), lr=0.1)
    assert model._trainer is None
    Trainer(max_steps=1, **QUIET).fit(model, torch.utils.data.DataLoader(torch.randn(4, 32)))
    model._trainer = None
    assert seen == [1]
    assert model._trainer is None


def test_loops_answer_with_loaders_and_limits(name):
    trainer, _ = fitted(name)
    assert trainer.fit_loop.max_batches == 2
    assert trainer.fit_loop._combined_loader.iterables is trainer.train_dataloader
    assert trainer.fit_loop.epoch_loop.val_loop.is_defined()
    trainer.fit_loop.max_epochs = 3
    assert trainer.max_epochs == 3


def test_loops_count_batches_and_epochs(name):
    seen = []

    class Watch(name("callbacks:Callback")):
        def on_train_batch_start(self, trainer, pl_module, batch, batch_idx):
            loop = trainer.fit_loop.epoch_loop
            counts = loop.batch_progress.current
            seen.append((counts.ready, counts.completed, loop.total_batch_idx, loop.batch_progress.is_last_batch))
            within.append((loop.batch_idx, loop._should_accumulate(), trainer.fit_loop.done))

        def on_train_end(self, trainer, pl_module):
            seen.append(trainer.fit_loop.epoch_progress.current.completed)
            seen.append(trainer.fit_loop.epoch_progress.current.ready)

    within: list[tuple[Any, ...]] = []
    trainer, _ = fitted(name, max_epochs=2, callbacks=[Watch()], accumulate_grad_batches=2)
    assert seen == [(1, 0, 0, False), (2, 1, 1, True), (1, 0, 2, False), (2, 1, 3, True), 2, 2]
    assert within == [(0, True, False), (1, False, False)] * 2
    loop = trainer.fit_loop.epoch_loop
    assert (loop.batch_idx, loop.total_batch_idx, loop.min_epochs, trainer.fit_loop.done) == (1, 3, 0, True)
    assert loop.automatic_optimization.optim_progress.optimizer_steps == trainer.global_step == 2
    assert not hasattr(trainer.strategy, "cluster_environment")  # of one process, as in Lightning


def test_the_sanity_check_and_when_loaders_are_made_anew_can_be_set_between_runs(name):
    class Model(name("demos.boring_classes:BoringModel")):
        def on_sanity_check_start(self):
            asked.append("sanity")

        def train_dataloader(self):
            asked.append(self.current_epoch)
            return super().train_dataloader()

    asked: list[Any] = []
    trainer = name(":Trainer")(**QUIET, max_epochs=2, limit_train_batches=1, limit_val_batches=1)
    trainer.num_sanity_val_steps, trainer.reload_dataloaders_every_n_epochs = 0, 1
    trainer.fit(Model())
    assert asked == [0, 1]
    assert (trainer.num_sanity_val_steps, trainer.reload_dataloaders_every_n_epochs) == (0, 1)


def test_the_loop_of_prediction_holds_what_there_is_so_far(name):
    class Writes(name("callbacks:BasePredictionWriter")):
        def on_predict_batch_end(self, trainer, *given):
            super().on_predict_batch_end(trainer, *given)
            seen.append(trainer.predict_loop.current_batch_indices)

        def write_on_epoch_end(self, trainer, pl_module, predictions, batch_indices):
            assert len(predictions) == 2

    class Model(name("demos.boring_classes:BoringModel")):
        def on_predict_epoch_end(self):
            loop = self.trainer.predict_loop
            seen.append((len(loop.predictions), loop.epoch_batch_indices))

    seen: list[Any] = []
    trainer = name(":Trainer")(**QUIET, callbacks=[Writes("epoch")])
    trainer.predict(Model(), torch.utils.data.DataLoader(torch.ones(5, 32), batch_size=3))
    assert seen == [[0, 1, 2], [3, 4], (2, [[[0, 1, 2], [3, 4]]])]
    assert trainer.predict_loop.epoch_batch_indices == []


def test_a_connector_that_lt_has_not_names_the_way_of_lt(name):
    with pytest.raises(AttributeError, match=r"_data_connector is not there: give loaders to fit.*LT917"):
        _ = name(":Trainer")(**QUIET)._data_connector


def test_a_callback_writes_what_the_connector_dumps_by_the_strategy(name, tmp_path):
    from lt.demos import BoringModel

    class Writing(name("callbacks:Callback")):
        def on_train_epoch_end(self, trainer, pl_module):
            dumped = trainer._checkpoint_connector.dump_checkpoint()
            trainer.strategy.save_checkpoint(dumped, tmp_path / "dumped.ckpt")
            assert (tmp_path / "dumped.ckpt").is_file()

    trainer, model = name(":Trainer")(max_steps=2, **QUIET), BoringModel()
    trainer.callbacks = [*trainer.callbacks, Writing()]
    trainer.fit(model)
    again = BoringModel.load_from_checkpoint(tmp_path / "dumped.ckpt")
    assert all(map(torch.equal, again.state_dict().values(), model.state_dict().values()))
    assert trainer._results.DATALOADER_SUFFIX.format(1) == "/dataloader_idx_1"
    assert trainer._accelerator_connector._strategy_flag.strategy_name == "single_device"
    with pytest.raises(AttributeError, match=r"restore_model is not there: .*LT917"):
        trainer._checkpoint_connector.restore_model()


def test_the_stage_is_what_lightning_gives_and_prints(name):
    from lt.demos import BoringModel

    told = []

    class Tells(BoringModel):
        def setup(self, stage):
            told.extend([stage == "fit", stage is name("trainer.states:TrainerFn").FITTING, str(stage), f"{stage}"])

        def teardown(self, stage):
            told.append(stage.value)

    trainer = name(":Trainer")(max_steps=1, **QUIET)
    trainer.fit(Tells())
    assert told == [True, True, "TrainerFn.FITTING", "TrainerFn.FITTING", "fit"]
    assert str(trainer.state.status) == "TrainerStatus.FINISHED"
    assert trainer.state.stopped


def test_what_uses_lt_beside_it_sees_lts_own_words(name):
    from lt.demos import BoringModel

    told = []

    class Tells(BoringModel):
        def setup(self, stage):
            told.append(f"{stage}")

    name(":Trainer")(**QUIET)
    (beside := Trainer(max_steps=1, **QUIET)).fit(Tells())
    assert (told, f"{beside.state.fn} {beside.state.status}") == (["fit"], "fit finished")


def test_fit_from_the_last_checkpoint_begins_anew_where_there_is_none(name, tmp_path):
    trainer = name(":Trainer")(**QUIET, max_epochs=1, limit_train_batches=1, default_root_dir=tmp_path)
    with pytest.warns(UserWarning, match="no last checkpoint available"):
        trainer.fit(name("demos.boring_classes:BoringModel")(), ckpt_path="last")
    assert trainer.global_step == 1


def test_the_command_line_makes_the_trainer_of_compat(name):
    cli = name("cli:LightningCLI")(name("demos.boring_classes:BoringModel"), run=False, args=[])
    assert type(cli.trainer) is name(":Trainer")
    assert isinstance(cli.trainer, Trainer)


def test_the_demo_model_learns_ones_from_a_quarter_of_its_data(name):
    data = name("demos.boring_classes:BoringDataModule")()
    module = name("demos.boring_classes:BoringModel")()
    (batch,) = list(data.test_dataloader())[:1]
    assert torch.equal(batch[0], data.random_full[128])
    assert module.training_step(batch, 0)["loss"] == (module(batch) - 1).square().mean()


def test_the_command_line_reads_lightnings_variables(name, monkeypatch):
    monkeypatch.setenv("PL_TRAINER__MAX_EPOCHS", "7")
    command = name("cli:LightningCLI")
    cli = command(name("demos.boring_classes:BoringModel"), run=False, args=[], parser_kwargs={"default_env": True})
    assert cli.trainer.max_epochs == 7


@pytest.mark.parametrize(
    ("argument", "kind", "given", "attribute"),
    [
        ("strategy", "DDPStrategy", {"find_unused_parameters": True}, "ddp_arguments"),
        ("profiler", "SimpleProfiler", {"filename": "perf"}, "filename"),
        ("plugins", "MixedPrecision", {"precision": "bf16-mixed"}, "precision"),
        ("plugins", "SLURMEnvironment", {"auto_requeue": False}, "auto_requeue"),
    ],
)
def test_a_file_names_lightnings_classes_without_their_modules(name, argument, kind, given, attribute):
    text = json.dumps({"class_path": kind, "init_args": given})
    words = [f"--trainer.{argument}", text, "--trainer.accelerator=cpu", "--trainer.devices=2"]
    cli = name("cli:LightningCLI")(name("demos.boring_classes:BoringModel"), run=False, args=words)
    made = cli.config_init.trainer[argument]
    assert type(made).__name__ == kind
    assert str(next(iter(given.values()))) in str(getattr(made, attribute))


def test_a_logger_that_a_script_imports_is_found_by_its_bare_name_too(name):
    assert name("loggers:CSVLogger") is lt.loggers.CSVLogger
    fabric = import_module("lightning.fabric.loggers").CSVLogger
    assert fabric(root_dir="there").save_dir == "there"
    assert isinstance(lt.loggers.CSVLogger("here"), fabric)


# ---- profilers and the summary ---------------------------------------------------------------------------------------


def test_a_profiler_written_for_lightning_is_called_by_the_name_of_each_action(name, capsys):
    class Counting(name("profilers:Profiler")):
        def __init__(self):
            super().__init__(dirpath=None, filename=None)
            self.started = []

        def start(self, action_name):
            self.started.append(action_name)

        def stop(self, action_name):
            assert action_name in self.started

        def summary(self):
            return f"{self._stage}: {len(self.started)} actions"

    trainer, _ = fitted(name, profiler=Counting())
    assert trainer.profiler.started.count("training_step") == 2
    assert "fit: " in capsys.readouterr().out


def test_the_simple_profiler_keeps_the_durations_of_each_action(name):
    trainer, _ = fitted(name, profiler="simple")
    assert isinstance(trainer.profiler, name("profilers:SimpleProfiler"))
    assert len(trainer.profiler.recorded_durations["training_step"]) == 2
    assert not trainer.profiler.current_actions
    with pytest.raises(ValueError, match="which was never started"):
        trainer.profiler.stop("another")


def test_the_advanced_profiler_keeps_the_functions_of_each_action(name, tmp_path, capsys):
    class Keeps(name("profilers:AdvancedProfiler")):
        def teardown(self, stage):
            self.kept = {action: profile.getstats() for action, profile in self.profiled_actions.items()}
            super().teardown(stage)

    trainer, _ = fitted(name, profiler=Keeps(tmp_path, line_count_restriction=3, dump_stats=True))
    assert any("training_step" in str(function) for function, *_ in trainer.profiler.kept["training_step"])
    assert not trainer.profiler.profiled_actions
    assert trainer.profiler.local_rank == 0
    assert (tmp_path / "fit-training_step.prof").stat().st_size
    assert "Profile stats for: training_step\n" in capsys.readouterr().out
    trainer, _ = fitted(name, profiler="advanced")
    assert isinstance(trainer.profiler, name("profilers:AdvancedProfiler"))
    assert pickle.loads(pickle.dumps(trainer.profiler)).line_count_restriction == 1.0


def test_without_a_profiler_there_is_one_that_takes_names_and_measures_nothing(name):
    trainer, _ = fitted(name)
    assert isinstance(trainer.profiler, name("profilers:PassThroughProfiler"))
    with trainer.profiler.profile("anything"):
        trainer.profiler.start("something")


def test_the_summary_answers_with_modes_and_padded_counts(name):
    summary = name("utilities.model_summary:ModelSummary")(name("demos.boring_classes:BoringModel")())
    assert (summary.total_parameters, summary.total_training_modes) == (66, {"train": 1, "eval": 0})
    assert summary.in_sizes == ["?"]
    (line,) = summary._layer_summary.items()
    assert (line[0], line[1].layer_type, line[1].num_parameters) == ("layer", "Linear", 66)
    count = name("utilities.model_summary:get_human_readable_count")
    assert [count(number) for number in (0, 123, 1234, 2e6, 4e14, 5e15)] == [
        *("0  ", "123  ", "1.2 K", "2.0 M", "400 T", "5,000 T"),
    ]
    assert name("utilities.model_summary:LayerSummary")(torch.nn.Linear(2, 3)).num_parameters == 9


@pytest.mark.parametrize("kind", ["ParallelStrategy", "DDPStrategy", "FSDPStrategy"])
def test_a_strategy_of_several_processes_shows_its_devices_and_environment(name, kind):
    strategy, devices = name(f"strategies:{kind}"), [torch.device("cpu")] * 2
    mine = type("Mine", (strategy,), {})
    for made in (strategy(), mine()):
        assert made.parallel_devices is made.cluster_environment is None
    environment = name("plugins.environments:LightningEnvironment")()
    given = mine(parallel_devices=devices, cluster_environment=environment)
    assert given.parallel_devices == devices
    assert given.cluster_environment is environment
    assert given.distributed_sampler_kwargs == {"num_replicas": 2, "rank": 0}
    given.parallel_devices = None
    assert given.parallel_devices is None


def test_a_strategy_given_to_a_trainer_has_its_devices_and_environment(name):
    strategy = name("strategies:DDPStrategy")()
    trainer = name(":Trainer")(**QUIET, strategy=strategy, devices=2)
    assert strategy.parallel_devices == trainer.strategy.parallel_devices == [torch.device("cpu")] * 2
    assert isinstance(strategy.cluster_environment, name("plugins.environments:LightningEnvironment"))


@pytest.mark.parametrize(
    ("kind", "most"), [("Strategy", 3), ("SingleDeviceStrategy", 4), ("ParallelStrategy", 5), ("DDPStrategy", 5)]
)
def test_more_arguments_by_position_than_a_strategy_takes_are_an_error(name, kind, most):
    strategy = name(f"strategies:{kind}")
    strategy(*[None] * most)
    with pytest.raises(TypeError, match=rf"{kind}\(\) takes {most} arguments by position, but {most + 1} were given"):
        strategy(*[None] * (most + 1))


@pytest.mark.parametrize("enabled", [False, 0])
@pytest.mark.parametrize("as_list", [False, True])
def test_a_callback_that_saves_at_an_exception_needs_checkpointing_as_another_that_saves_does(name, as_list, enabled):
    saves, trainer = name("callbacks:OnExceptionCheckpoint")("saved"), name(":Trainer")
    with pytest.raises(name("utilities.exceptions:MisconfigurationException"), match=r"OnExceptionCheckpoint.*LT123"):
        trainer(**{**QUIET, "enable_checkpointing": enabled}, callbacks=[saves] if as_list else saves)
    assert trainer(**{**QUIET, "enable_checkpointing": True}, callbacks=saves).checkpoint_callbacks == [saves]


@pytest.mark.parametrize(
    ("given", "found"), [(None, getattr(signal, "SIGUSR1", None)), (signal.SIGTERM, signal.SIGTERM)]
)
def test_slurm_sends_lightnings_signal_unless_another_is_given(name, given, found):
    assert name("plugins.environments:SLURMEnvironment")(requeue_signal=given).requeue_signal == found


def test_lightnings_bases_of_hooks_have_its_hooks_and_count_as_bases_of_a_module(name):
    model, checkpoint = name("core.hooks:ModelHooks"), name("core.hooks:CheckpointHooks")
    module = name(":LightningModule")
    names = {hook for hook in dir(model) if hook.startswith("on_")}
    assert {"on_fit_start", "on_train_batch_end", "on_before_optimizer_step", "on_validation_model_eval"} <= names
    assert not names & {"on_exception", "on_load_checkpoint", "on_save_checkpoint", "on_predict_model_train"}
    for base in (model, checkpoint):
        own = type("Own", (base, torch.nn.Module), {})
        assert issubclass(module, base)
        assert isinstance(name("demos.boring_classes:BoringModel")(), base)
        assert isinstance(own(), base)
        assert not issubclass(module, own)
        assert not any(issubclass(kind, base) for kind in (torch.nn.Module, name(":Callback"), int))


def test_the_layers_of_a_summary_have_their_sizes_by_either_name(name):
    module = name("demos.boring_classes:BoringModel")()
    module.example_input_array = torch.ones(1, 32)
    summary = name("utilities.model_summary:ModelSummary")(module)
    for layers in (summary._layer_summary, summary.summarize()):
        assert {each: (layer.in_size, layer.out_size) for each, layer in layers.items()} == {"layer": ([1, 32], [1, 2])}


# ---- warnings and errors ---------------------------------------------------------------------------------------------


def test_a_filter_for_lightnings_text_turns_off_the_warning_of_lt(name):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*max_epochs. was not set.*")
        trainer = name(":Trainer")(**QUIET, fast_dev_run=False, max_steps=1)
        trainer.fit(name("demos.boring_classes:BoringModel")())


def test_filters_for_a_module_in_eval_mode_and_for_a_schedule_by_epochs_turn_off_those_warnings(name):
    class Model(name("demos.boring_classes:BoringModel")):
        def configure_optimizers(self):
            optimizer = torch.optim.SGD(self.parameters(), lr=0.1)
            return [optimizer], [torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.1, total_steps=2)]

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", r".*Found \d+ module\(s\) in eval mode")
        warnings.filterwarnings("ignore", ".*scheduler is using 'interval': 'epoch'")
        name(":Trainer")(**QUIET, max_epochs=1, limit_train_batches=2).fit(Model().eval())


def test_filters_for_lightnings_text_hold_in_a_test_too(name):
    class Model(name("demos.boring_classes:BoringModel")):
        def test_step(self, batch, batch_idx):
            self.log("x", batch[0].sum())

    ambiguous = [(torch.ones(3, 32), torch.ones(5))]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*infer the .batch_size. from an ambiguous collection.*")
        name(":Trainer")(**QUIET).test(Model(), ambiguous, verbose=False)
    with pytest.warns(UserWarning, match="LT510"):
        name(":Trainer")(**QUIET).test(Model(), ambiguous, verbose=False)


def test_a_logging_interval_longer_than_the_epoch_is_a_warning_that_lightnings_text_turns_off(name, tmp_path):
    logger = name("loggers:CSVLogger")(tmp_path)
    with pytest.warns(UserWarning, match=r"batches \(2\) is smaller than the logging interval .*=50"):
        fitted(name, logger=logger)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", ".*is smaller than the logging interval.*")
        fitted(name, logger=logger)


def test_a_trainer_that_sets_its_own_evaluation_loop_is_told_that_it_has_no_effect_and_tests(name):
    loop, kind = name("loops.evaluation_loop:_EvaluationLoop"), name("trainer.states:RunningStage").TESTING

    class Trains(name(":Trainer")):
        def __init__(self, **settings):
            super().__init__(**settings)
            self.test_loop = loop(self, name("trainer.states:TrainerFn").TESTING, kind, inference_mode=False)

    with pytest.warns(UserWarning, match=r"trainer.test_loop = EvaluationLoop.*never called.*LT939"):
        trainer = Trains(**QUIET, limit_test_batches=1)
    assert trainer.test(name("demos.boring_classes:BoringModel")(), verbose=False)
    assert (trainer.test_loop.max_batches, trainer.test_loop.inference_mode) == ([1], False)


def test_misconfiguration_exception_catches_what_lt_says_of_the_configuration(name):
    misconfigured = name("utilities.exceptions:MisconfigurationException")
    trainer = name(":Trainer")(**QUIET, max_epochs=1)
    with pytest.raises(misconfigured):
        trainer.fit(name(":LightningModule")())
    assert issubclass(LogError, misconfigured)
    assert not any(issubclass(error, misconfigured) for error in (CheckpointError, RankError))  # nor in Lightning


def test_accelerators_say_whether_they_are_here():
    assert lt.accelerators.CUDAAccelerator.is_available() is (torch.cuda.device_count() > 0)
    assert lt.accelerators.CUDAAccelerator.auto_device_count() == torch.cuda.device_count()
    assert lt.accelerators.CPUAccelerator.auto_device_count() == 1


# ---- accelerators, formats and loops as Lightning's users write and read them ----------------------------------------


@pytest.fixture
def lumen(name):
    """A kind of device as Lightning's documentation has it written, and what it was asked."""
    asked = []

    class Lumen(name("accelerators:Accelerator")):
        def __init__(self, size=1):
            self.size = size

        def setup(self, trainer):
            asked.append(("setup", trainer.max_steps))

        def setup_device(self, device):
            asked.append(("setup_device", device))

        def teardown(self):
            asked.append(("teardown",))

        def get_device_stats(self, device):
            return {"light": 0.5}

        @staticmethod
        def parse_devices(devices):
            return int(devices)

        @staticmethod
        def get_parallel_devices(devices):
            return [torch.device("cpu")] * devices

        @staticmethod
        def auto_device_count():
            return 1

        @staticmethod
        def is_available():
            return True

        @staticmethod
        def name():
            return "lumen"

    return Lumen, asked


def test_a_package_registers_its_accelerators_and_patches_the_choice_as_it_is_imported(name, lumen, monkeypatch):
    """As packages for other devices do it: the patched functions exist, and a run of this device goes on as before."""
    kind, _ = lumen
    kind.register_accelerators = classmethod(lambda cls, registry: registry.register("lumen", cls))
    registry = name("accelerators:AcceleratorRegistry")
    package = types.ModuleType("package")
    package.Lumen, package.Accelerator = kind, name("accelerators:Accelerator")
    name("utilities.registry:_register_classes")(registry, "register_accelerators", package, package.Accelerator)
    try:
        assert isinstance(registry.get("lumen"), kind)
    finally:
        registry.remove("lumen")
    connector = name("trainer.connectors.accelerator_connector:_AcceleratorConnector")
    for method in ("_choose_strategy", "_check_and_init_precision"):
        before = getattr(connector, method)
        monkeypatch.setattr(connector, method, lambda self, before=before: before(self))
    monkeypatch.setattr(name("trainer:setup"), "_log_device_info", print, raising=False)
    asked = connector()
    assert (asked._choose_strategy().name, asked._check_and_init_precision().name) == ("single", "32-true")


def test_an_accelerator_written_for_lightning_trains(name, lumen):
    kind, asked = lumen
    trainer = name(":Trainer")(**QUIET | {"accelerator": kind()}, devices="1", max_steps=1)
    trainer.fit(name("demos.boring_classes:BoringModel")())
    assert asked == [("setup_device", torch.device("cpu")), ("setup", 1), ("teardown",)]
    assert isinstance(trainer.accelerator, kind)
    assert trainer.accelerator.name() == kind.name() == "lumen"
    assert trainer.accelerator.stats(trainer.strategy.device) == {"light": 0.5}
    assert name(":Trainer")(**QUIET | {"accelerator": kind()}, devices=2).strategy.name == "ddp"


def test_processes_may_share_a_device_of_such_an_accelerator(name, lumen):
    class Shared(lumen[0]):
        @staticmethod
        def get_parallel_devices(devices):
            return [torch.device("cpu", 0)] * devices

    assert name(":Trainer")(**QUIET | {"accelerator": Shared()}, devices=2).device_ids == [0, 1]


def test_an_accelerator_is_registered_by_a_decorator_with_its_arguments(name, lumen):
    registry = name("accelerators:AcceleratorRegistry")
    registry.register("lumen", description="glows", size=3)(lumen[0])
    try:
        assert name(":Trainer")(**QUIET | {"accelerator": "lumen"}).accelerator.size == 3
        assert "lumen" in registry.available_accelerators()
        assert (registry["lumen"]["accelerator"], registry["lumen"]["accelerator_name"]) == (lumen[0], "lumen")
    finally:
        registry.remove("lumen")


def test_an_accelerator_that_is_not_here_is_a_misconfiguration(name, lumen):
    class Away(lumen[0]):
        @staticmethod
        def is_available():
            return False

    with pytest.raises(name("utilities.exceptions:MisconfigurationException"), match="no such device here"):
        name(":Trainer")(**QUIET | {"accelerator": Away()})


def test_lts_own_accelerators_have_lightnings_methods(name):
    cpu = name("accelerators:CPUAccelerator")
    opened = []

    class Told(cpu):
        def setup_device(self, device):
            opened.append(device)
            super().setup_device(device)

    trainer = name(":Trainer")(**QUIET | {"accelerator": Told()}, devices=1, max_steps=1)
    trainer.fit(name("demos.boring_classes:BoringModel")())
    assert opened == [torch.device("cpu")]
    assert (cpu.name(), cpu.parse_devices("2"), cpu.get_parallel_devices(2)) == ("cpu", 2, [torch.device("cpu")] * 2)
    by_name = name(":Trainer")(**QUIET).accelerator
    assert isinstance(by_name, cpu)
    assert by_name.name() == "cpu"


def test_mixed_precision_says_its_device_and_computes_outside_of_a_step(name):
    mixed = name("plugins:MixedPrecision")
    scaler = torch.amp.GradScaler("cpu")
    assert (mixed("bf16-mixed", "cpu").device, mixed("bf16-mixed", "cpu").scaler) == ("cpu", None)
    assert (mixed("16-mixed", "cuda").device, mixed("16-mixed", "cpu", scaler).scaler) == ("cuda", scaler)
    plugin = name(":Trainer")(**QUIET, precision="bf16-mixed").precision_plugin
    one = torch.ones(2, 2)
    for context in (plugin.forward_context, plugin.autocast_context_manager, plugin.val_step_context):
        with context():
            assert (one @ one).dtype is torch.bfloat16
    assert plugin.device == "cpu"
    assert not hasattr(name(":Trainer")(**QUIET).precision_plugin, "device")  # nor in Lightning


def test_evaluation_loops_count_their_batches(name):
    told = []

    def tell(loop):
        counts = (loop.batch_progress.current, loop.batch_progress.total)
        ready, completed = zip(*((each.ready, each.completed) for each in counts), strict=True)
        told.append((*ready, *completed, loop.batch_progress.is_last_batch))

    class Tells(name(":Callback")):
        def on_train_batch_start(self, trainer, *_):
            tell(trainer.fit_loop.epoch_loop.val_loop)

        def on_validation_batch_end(self, trainer, *_):
            tell(trainer.fit_loop.epoch_loop.val_loop)

        def on_test_batch_start(self, trainer, *_):
            tell(trainer.test_loop)

    trainer = name(":Trainer")(
        **QUIET, max_epochs=1, limit_train_batches=2, limit_val_batches=2, limit_test_batches=1, val_check_interval=1
    )
    trainer.callbacks.append(Tells())
    model = name("demos.boring_classes:BoringModel")()
    trainer.fit(model)
    for _ in range(2):
        trainer.test(model, verbose=False)
    tell(trainer.fit_loop.epoch_loop.val_loop)
    tell(trainer.predict_loop)
    assert told == [  # as Lightning 2.6.6: ready in this evaluation and in all, completed in them, the last
        *[(1, 1, 0, 0, False), (2, 2, 1, 1, True)],  # the sanity check
        *[(0, 0, 0, 0, False), (1, 1, 0, 0, False), (2, 2, 1, 1, True)],
        *[(2, 2, 2, 2, True), (1, 3, 0, 2, False), (2, 4, 1, 3, True)],
        *[(1, 1, 0, 0, True), (1, 2, 0, 1, True)],  # two tests
        *[(2, 4, 2, 4, True), (0, 0, 0, 0, False)],
    ]


def test_counting_the_batches_of_a_validation_asks_for_no_loader_that_the_fit_does_not_read(name):
    asked = []

    class Asked(name("demos.boring_classes:BoringModel")):
        def val_dataloader(self):
            asked.append("val")

    trainer = name(":Trainer")(**QUIET, max_steps=1, limit_val_batches=0)
    trainer.fit(Asked())
    assert not trainer.fit_loop.epoch_loop.val_loop.batch_progress.current.ready
    assert not asked


def test_a_logger_written_for_1_x_finds_the_helpers_of_its_base(name):
    class Tube(name("loggers.base:LightningLoggerBase")):
        name, version = "tube", 0

        def __init__(self):
            super().__init__()
            self._prefix, self.tags, self.rows = "a", {}, []

        def log_hyperparams(self, params):
            self.tags = self._sanitize_params(self._flatten_dict(self._convert_params(params)))

        def log_metrics(self, metrics, step=None):
            self.rows.append((sorted(self._add_prefix(metrics)), step))

    class Logs(name("demos.boring_classes:BoringModel")):
        def __init__(self, sizes=(1, 2), nested=None):
            super().__init__()
            self.save_hyperparameters()

        def training_step(self, batch, batch_idx):
            self.log("loss", loss := super().training_step(batch, batch_idx)["loss"])
            return loss

    trainer = name(":Trainer")(**QUIET | {"logger": (tube := Tube())}, max_steps=1, log_every_n_steps=1)
    trainer.fit(Logs(nested={"a": 1}))
    assert tube.tags == {"sizes": "(1, 2)", "nested/a": 1}
    assert tube.rows == [(["a-epoch", "a-loss"], 0)]


def test_the_names_of_before_1_0_that_every_guide_of_then_has_are_answered(name):
    assert name("logging:TensorBoardLogger") is name("loggers:TensorBoardLogger")
    assert name(":data_loader")(len) is len
