import copy
import json
import pickle
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import fsspec
import pytest
import torch
from tests import processes

from lt_core.errors import ConfigError, ConfigTypeError
from lt_loggers import CSVLogger, JSONLLogger, TensorBoardLogger
from lt_loggers.folder import next_version

KINDS = pytest.mark.parametrize("kind", [CSVLogger, JSONLLogger, TensorBoardLogger])


@KINDS
def test_folders_are_lightnings(tmp_path, kind):
    logger = kind(tmp_path, name="exp", version=3)
    assert (logger.name, logger.version, logger.save_dir) == ("exp", 3, str(tmp_path))
    assert (logger.root_dir, logger.log_dir) == (str(tmp_path / "exp"), str(tmp_path / "exp" / "version_3"))
    assert kind(tmp_path).log_dir == str(tmp_path / "lightning_logs" / "version_0")
    assert kind(tmp_path, name=None, version="mine").log_dir == str(tmp_path / "mine")


def test_the_sub_dir_is_below_the_version(tmp_path):
    assert TensorBoardLogger(tmp_path, sub_dir="fold/1").log_dir == str(
        tmp_path / "lightning_logs" / "version_0" / "fold" / "1"
    )


def test_the_next_version_is_one_more_than_the_largest(tmp_path):
    for name in ("version_2", "version_10", "version_x", "other"):
        (tmp_path / name).mkdir()
    assert next_version(tmp_path) == 11
    assert next_version(tmp_path / "missing") == 0


def test_reading_the_version_makes_no_folder(tmp_path):
    logger = CSVLogger(tmp_path)
    assert (logger.version, logger.log_dir) == (0, str(tmp_path / "lightning_logs" / "version_0"))
    assert list(tmp_path.iterdir()) == []


@KINDS
def test_the_folder_stays_where_it_is_when_the_process_goes_to_another_one(tmp_path, monkeypatch, kind):
    monkeypatch.chdir(tmp_path)
    logger = kind("logs")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    logger.log_metrics({"loss": 1.0}, 0)
    logger.finalize("success")
    assert logger.save_dir == "logs"
    assert list((tmp_path / "logs" / "lightning_logs" / "version_0").iterdir())
    assert list((tmp_path / "elsewhere").iterdir()) == []


@KINDS
def test_a_folder_that_cannot_be_made_is_told_with_the_argument(tmp_path, kind):
    (tmp_path / "file").write_text("no folder")
    with pytest.raises(ConfigError, match=r"save_dir='.*file'\): no folder can be made in .*Give a folder.*LT559"):
        kind(tmp_path / "file").claim_version()


@KINDS
@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"version": 1.5}, r"version=1.5: expected a folder's name, or a whole number"),
        ({"version": ["a"]}, r"version=\['a'\]: expected a folder's name"),
        ({"flush": "5"}, r"Logger: expected whole steps between writes; received '5'"),
        ({"flush": 0.5}, r"expected whole steps between writes; received 0.5"),
    ],
    ids=str,
)
def test_what_is_no_version_and_no_number_of_steps_is_refused_where_it_is_given(tmp_path, kind, arguments, said):
    if "flush" in arguments:
        arguments = {"max_queue" if kind is TensorBoardLogger else "flush_logs_every_n_steps": arguments["flush"]}
    with pytest.raises(ConfigTypeError, match=rf"{said}.*LT179"):
        kind(tmp_path, **arguments)


def test_a_version_may_be_a_number_of_numpy(tmp_path):
    np = pytest.importorskip("numpy")
    assert CSVLogger(tmp_path, version=np.int64(3)).log_dir == str(tmp_path / "lightning_logs" / "version_3")


@pytest.mark.parametrize("name", ["", "exp"])
@pytest.mark.parametrize("more", [{}, {"sub_dir": "sub"}])
@KINDS
def test_an_empty_version_is_the_experiments_own_folder_in_every_fit(tmp_path, kind, name, more):
    if more and kind is not TensorBoardLogger:
        pytest.skip("has no sub_dir")
    logger = kind(tmp_path, name, "", **more)
    logger.log_metrics({"a": 1.0}, 0)
    logger.save()
    for _ in range(2):
        assert (logger.claim_version(), logger.root_dir) == ("", str(tmp_path / name))
        assert logger.log_dir == str(Path(tmp_path, name, *more.values()))
        logger.begin_anew()
    assert {path.name for path in Path(logger.log_dir).iterdir()} >= {logger.NAME_HPARAMS_FILE}


def test_jobs_that_start_at_once_get_folders_of_their_own(tmp_path):
    together = Barrier(8)

    def claim(_):
        logger = CSVLogger(tmp_path)
        together.wait()
        return logger.claim_version()

    with ThreadPoolExecutor(8) as jobs:
        assert sorted(jobs.map(claim, range(8))) == list(range(8))


def test_the_loggers_of_one_run_share_a_folder(tmp_path):
    first, second = TensorBoardLogger(tmp_path), CSVLogger(tmp_path)
    first.claim_version()
    assert second.claim_version(beside=[first]) == first.version


def test_two_loggers_of_one_kind_do_not_share_a_folder(tmp_path):
    first, second = CSVLogger(tmp_path), CSVLogger(tmp_path, prefix="x")
    first.claim_version()
    assert second.claim_version(beside=[first]) != first.version


def test_the_next_run_has_the_next_folder_although_two_loggers_shared_one(tmp_path):
    for run in range(2):
        first, second = TensorBoardLogger(tmp_path), CSVLogger(tmp_path)
        first.claim_version()
        second.claim_version(beside=[first])
        assert (first.version, second.version) == (run, run)


def test_a_claimed_folder_goes_away_unused_when_a_resume_brings_another(tmp_path):
    first = CSVLogger(tmp_path)
    first.claim_version()
    first.log_metrics({"a": 1.0}, 0)
    first.save()
    resumed = CSVLogger(tmp_path)
    assert resumed.claim_version() == 1
    resumed.load_state_dict(first.state_dict())
    assert [path.name for path in Path(resumed.root_dir).iterdir()] == ["version_0"]


@KINDS
@pytest.mark.parametrize("argument", [{"name": "../up"}, {"version": "/abs"}, {"name": "a/../../b"}])
def test_a_name_that_leads_outside_is_refused(tmp_path, kind, argument):
    with pytest.raises(ConfigError, match="must stay below save_dir"):
        kind(tmp_path, **argument)


def test_a_checkpoint_cannot_lead_outside(tmp_path):
    logger = CSVLogger(tmp_path)
    with pytest.raises(ConfigError, match="must stay below save_dir"):
        logger.load_state_dict({"version": "../../etc", "step": 0, "files": {}})


def test_a_remote_folder_of_an_unknown_kind_is_refused_with_the_way_out():
    with pytest.raises(ConfigError, match=r"nosuch.*or give a local folder.*LT547"):
        CSVLogger("nosuch://bucket/logs")


@pytest.fixture
def remote():
    system = fsspec.filesystem("memory")
    yield system
    system.rm("/", recursive=True)


def test_a_remote_folder_gets_what_is_written_with_each_save(remote):
    logger = CSVLogger("memory://logs")
    logger.log_hyperparams({"lr": 0.1})
    logger.log_metrics({"loss": 1.0}, 0)
    logger.save()
    assert logger.log_dir == "memory://logs/lightning_logs/version_0"
    assert remote.cat("/logs/lightning_logs/version_0/metrics.csv") == b"loss,step\n1.0,0\n"
    assert remote.cat("/logs/lightning_logs/version_0/hparams.yaml") == b"lr: 0.1\n"
    assert CSVLogger("memory://logs").version == 1


def test_a_resumed_run_goes_on_in_its_remote_files(remote):
    first = CSVLogger("memory://logs")
    first.log_metrics({"loss": 1.0}, 0)
    first.save()
    state = first.state_dict()
    first.log_metrics({"loss": 2.0}, 1)
    first.save()
    again = CSVLogger("memory://logs")
    again.load_state_dict(state)
    again.log_metrics({"loss": 3.0}, 1)
    again.save()
    assert remote.cat("/logs/lightning_logs/version_0/metrics.csv") == b"loss,step\n1.0,0\n3.0,1\n"


def test_a_copy_of_a_remote_logger_writes_from_a_folder_of_its_own(remote):
    copied = pickle.loads(pickle.dumps(CSVLogger("memory://logs", version=3)))
    copied.log_metrics({"loss": 1.0}, 0)
    copied.save()
    assert remote.exists("/logs/lightning_logs/version_3/metrics.csv")


def test_home_and_variables_are_understood(monkeypatch, tmp_path):
    monkeypatch.setenv("LOGS_HERE", str(tmp_path))
    assert CSVLogger("$LOGS_HERE/x").save_dir == str(tmp_path / "x")
    assert CSVLogger("~/x").save_dir == str(Path.home() / "x")


@KINDS
def test_other_ranks_write_nothing(tmp_path, monkeypatch, kind):
    monkeypatch.setenv("RANK", "1")
    logger = kind(tmp_path)
    logger.claim_version()
    logger.log_hyperparams({"lr": 1})
    for step in range(500):
        logger.log_metrics({"a": 1.0}, step)
    logger.log_media("text", "hello", 0)
    logger.finalize("success")
    assert list(tmp_path.iterdir()) == []


@KINDS
@pytest.mark.parametrize("copied", [lambda logger: pickle.loads(pickle.dumps(logger)), copy.deepcopy])
def test_copies_of_a_logger_that_has_logged_nothing_take_a_version_each(tmp_path, kind, copied):
    template, versions = kind(tmp_path), []
    for _ in range(3):
        own = copied(template)
        own.claim_version()
        own.log_metrics({"a": 1.0}, 0)
        own.finalize("success")
        versions.append(own.version)
    assert versions == [0, 1, 2]
    assert template.claim_version() == 3


@KINDS
def test_a_copy_for_another_process_does_not_write_rows_again(tmp_path, kind):
    logger = kind(tmp_path)
    logger.log_metrics({"a": 1.0}, 0)
    own = pickle.loads(pickle.dumps(logger))
    own.log_metrics({"a": 2.0}, 1)
    own.finalize("success")
    logger.finalize("success")
    if kind is not TensorBoardLogger:
        assert Path(logger.log_dir, logger.file_name).read_text().count("\n") == 2 + (kind is CSVLogger)


def test_importing_the_package_imports_no_tracker():
    script = (
        "import sys, lt_loggers; from lt_loggers.tensorboard.logger import TensorBoardLogger; "
        "trackers = ('tensorboard', 'wandb', 'mlflow', 'comet_ml', 'trackio', 'yaml'); "
        "print([name for name in trackers if name in sys.modules])"
    )
    assert processes.run([sys.executable, "-c", script], capture_output=True, text=True, check=True).stdout == "[]\n"


class Away(torch.Tensor):
    """A tensor that says it is not on the CPU, so that it is treated as one on a device."""

    is_cpu = False


def test_values_on_a_device_are_fetched_together_for_each_type(tmp_path, monkeypatch):
    logger = JSONLLogger(tmp_path)
    for step in range(10):
        row = {"loss": torch.tensor(step / 3), "n": torch.tensor(2**53 + step), "fine": torch.tensor(0.1).double()}
        logger.log_metrics({name: value.as_subclass(Away) for name, value in row.items()}, step)
    stacks = []
    monkeypatch.setattr(torch, "stack", lambda values, stack=torch.stack: stacks.append(len(values)) or stack(values))
    logger.save()
    assert stacks == [10, 10, 10]
    rows = [json.loads(line) for line in Path(logger.log_dir, "metrics.jsonl").read_text().splitlines()]
    assert rows[3] == {"step": 3, "loss": 1.0, "n": 2**53 + 3, "fine": torch.tensor(0.1).double().item()}


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_logging_a_value_on_cuda_does_not_wait_for_the_device(tmp_path):
    logger = JSONLLogger(tmp_path)
    value = torch.tensor(1.0, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        logger.log_metrics({"a": value}, 0)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    value.add_(1)
    logger.save()
    assert Path(logger.log_dir, "metrics.jsonl").read_text() == '{"step": 0, "a": 1.0}\n'
