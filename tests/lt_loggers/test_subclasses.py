"""Subclasses of the loggers: what they override decides where files go, and who gets the rows."""

from pathlib import Path

import pytest

from lt_loggers import CSVLogger, JSONLLogger, MemoryLogger, StdoutLogger, TensorBoardLogger
from lt_loggers.csv_file import ExperimentWriter

KINDS = [CSVLogger, JSONLLogger, TensorBoardLogger]


def made(kind, folder, **members):
    return type("Mine", (kind,), {name: property(value) for name, value in members.items()})(folder)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    ("member", "value", "below"),
    [
        ("name", "", "version_0"),
        ("name", "mine", "mine/version_0"),
        ("version", "", "lightning_logs"),
        ("version", "mine", "lightning_logs/mine"),
        ("version", 7, "lightning_logs/version_7"),
        ("save_dir", "elsewhere", "elsewhere/lightning_logs/version_0"),
        ("root_dir", "elsewhere", "elsewhere/version_0"),
        ("log_dir", "elsewhere/deep", "elsewhere/deep"),
        ("sub_dir", "part/one", "lightning_logs/version_0/part/one"),
    ],
)
def test_files_go_where_an_overridden_property_says(tmp_path, kind, member, value, below):
    given = str(tmp_path / value) if member.endswith("_dir") and member != "sub_dir" else value
    logger = made(kind, tmp_path, **{member: lambda self: given})
    for _ in range(2):  # a second fit
        logger.begin_anew()
        logger.claim_version()
        logger.log_metrics({"loss": 1.0}, step=0)
        logger.log_hyperparams({"lr": 0.1})
        logger.finalize("success")
        assert Path(logger.log_dir) == Path(logger.files_dir)
        if logger.version in ("", "mine", 7) or member == "log_dir":
            break
    files = [path.relative_to(tmp_path) for path in tmp_path.rglob("*") if path.is_file()]
    folders = {file.parent.as_posix() for file in files}
    second = {below.replace("version_0", "version_1")} if "version_0" in below else set()
    assert folders == {below} | second, files
    assert len(files) == 2 * len(folders)


class Own(ExperimentWriter):
    """Keeps what it gets, and writes as its parent does."""

    def __init__(self, log_dir):
        super().__init__(log_dir)
        self.got, self.saves = [], 0

    def log_metrics(self, metrics_dict, step=None):
        self.got.append((step, dict(metrics_dict)))
        super().log_metrics(metrics_dict, step)

    def save(self):
        self.saves += 1
        super().save()


class Bare:
    """Has what Lightning calls of a writer, and no parent."""

    def __init__(self):
        self.got, self.saves = [], 0

    def log_metrics(self, metrics, step):
        self.got.append((step, dict(metrics)))

    def save(self):
        self.saves += 1


@pytest.mark.parametrize("own", [True, False])
def test_a_writer_of_ones_own_gets_the_rows(tmp_path, own):
    writer = Own(tmp_path / "written") if own else Bare()
    logger = made(CSVLogger, tmp_path / "logs", experiment=lambda self: writer)
    for step in range(3):
        logger.log_metrics({"loss": step / 2}, step)
    logger.finalize("success")
    assert writer.got == [(0, {"loss": 0.0}), (1, {"loss": 0.5}), (2, {"loss": 1.0})]
    assert writer.saves == 1
    assert [path.parent.name for path in tmp_path.rglob("*.csv")] == ["written"] * own


def test_a_writer_of_another_file_writes_no_csv(tmp_path):
    class Lines(ExperimentWriter):
        def save(self):
            with (tmp_path / "lines.txt").open("a") as file:
                file.writelines(f"{row}\n" for row in self.metrics)
            self.metrics = []

    writer = Lines(tmp_path / "written")
    logger = made(CSVLogger, tmp_path / "logs", experiment=lambda self: writer)
    for step in range(205):
        logger.log_metrics({"loss": 0.5}, step)
    logger.finalize("success")
    rows = (tmp_path / "lines.txt").read_text().splitlines()
    assert rows == [str({"loss": 0.5, "step": step}) for step in range(205)]
    assert not [*tmp_path.rglob("*.csv")]


@pytest.mark.parametrize("base", [CSVLogger, JSONLLogger, TensorBoardLogger, MemoryLogger, StdoutLogger])
def test_an_override_of_log_metrics_gets_numbers(tmp_path, base):
    class Own(base):
        def log_metrics(self, metrics, step=None):
            super().log_metrics(metrics, step)

    class Ready(Own):
        takes_tensors = True

    class Other(base):
        pass

    takes = {kind.__name__: kind(str(tmp_path)).takes_tensors for kind in (base, Other, Own, Ready)}
    assert takes == {base.__name__: True, "Other": True, "Own": False, "Ready": True}


def test_a_writer_that_fails_gets_each_row_once(tmp_path):
    class Failing(Bare):
        def log_metrics(self, metrics, step):
            if step == 1 and not self.saves:
                self.saves = -1
                raise OSError("full")
            super().log_metrics(metrics, step)

    writer = Failing()
    logger = made(CSVLogger, tmp_path, experiment=lambda self: writer)
    for step in range(3):
        logger.log_metrics({"loss": 1.0}, step)
    with pytest.raises(OSError, match="full"):
        logger.save()
    logger.save()
    assert [step for step, _ in writer.got] == [0, 1, 2]


def test_a_summary_writer_of_ones_own_gets_the_scalars(tmp_path):
    from torch.utils.tensorboard import SummaryWriter

    writer = SummaryWriter(str(tmp_path / "written"))
    logger = made(TensorBoardLogger, tmp_path / "logs", experiment=lambda self: writer)
    logger.log_metrics({"loss": 1.0}, 0)
    logger.finalize("success")
    writer.close()
    assert [path.parent.name for path in tmp_path.rglob("*tfevents*")] == ["written"]


def test_an_override_that_calls_its_parent_changes_nothing(tmp_path):
    logger = made(TensorBoardLogger, tmp_path, experiment=TensorBoardLogger.experiment.fget)
    logger.log_metrics({"loss": 1.0}, 0)
    logger.experiment.add_scalar("mine", 2.0, 0)
    logger.finalize("success")
    assert len([*tmp_path.rglob("*tfevents*")]) == 1
