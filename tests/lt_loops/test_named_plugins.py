"""Names in ``Trainer(plugins=...)``, and which environment counts where several are in force."""

import pytest

from lt_core import CheckpointIO, ConfigError, PluginError, Precision, plugins
from lt_loops import Trainer

PACKAGE = """
from dataclasses import dataclass
from typing import ClassVar

from lt_core import CheckpointIO, Environment, Launcher, Precision


class Mine(CheckpointIO):
    pass


class Halved(Precision):
    name = "Halved"


class Here(Launcher):
    name = "here"


@dataclass(frozen=True, kw_only=True)
class A(Environment):
    @classmethod
    def detect(cls):
        return cls(restart_count=1)


@dataclass(frozen=True, kw_only=True)
class B(A):
    priority: ClassVar[int] = 5

    @classmethod
    def detect(cls):
        return cls(restart_count=2)


@dataclass(frozen=True, kw_only=True)
class Elsewhere(Environment):
    pass
"""

ENTRIES = """
[lt.checkpoint_io]
mine = named_plugins:Mine
twice = named_plugins:Mine
[lt.precision]
Halved = named_plugins:Halved
twice = named_plugins:Halved
[lt.launchers]
right_here = named_plugins:Here
[lt.environments]
elsewhere = named_plugins:Elsewhere
"""


@pytest.fixture
def installed(tmp_path, monkeypatch):
    """Return a function that installs the package above, with further entry points."""

    def install(more=""):
        (tmp_path / "named_plugins.py").write_text(PACKAGE)
        info = tmp_path / "lt_named_plugins-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: lt-named-plugins\nVersion: 1.0\n")
        (info / "entry_points.txt").write_text(ENTRIES + more)
        monkeypatch.syspath_prepend(tmp_path)
        plugins.rescan()

    yield install
    monkeypatch.undo()
    plugins.rescan()


QUIET = {"accelerator": "cpu", "logger": False, "enable_checkpointing": False, "enable_progress_bar": False}


def test_plugins_are_found_by_name_whatever_their_kind(installed):
    installed()
    trainer = Trainer(plugins=["mine", "Halved", "right_here"], **QUIET)
    assert type(trainer.checkpoint_io).__name__ == "Mine"
    assert type(trainer.precision_plugin).__name__ == "Halved"
    assert type(trainer.strategy.placement.launcher).__name__ == "Here"


def test_one_name_needs_no_list_and_goes_beside_objects(installed):
    installed()
    assert type(Trainer(plugins="mine", **QUIET).checkpoint_io).__name__ == "Mine"
    trainer = Trainer(plugins=["Halved", CheckpointIO()], **QUIET)
    assert type(trainer.precision_plugin).__name__ == "Halved"


def test_a_name_with_capitals_is_found_as_it_is_written(installed):
    installed()
    assert type(Trainer(precision="Halved", **QUIET).precision_plugin).__name__ == "Halved"


def test_an_unknown_name_says_what_is_installed_and_what_was_meant(installed):
    installed()
    with pytest.raises(PluginError, match=r"Unknown plug-in 'mien'.*'right_here'.*Did you mean 'mine'\?.*\[LT101\]"):
        Trainer(plugins="mien", **QUIET)


def test_a_name_of_two_kinds_asks_for_the_object(installed):
    installed()
    with pytest.raises(ConfigError, match=r"'twice' names a checkpoint IO and precision. Pass the object .*\[LT122\]"):
        Trainer(plugins=["twice"], **QUIET)


def test_an_environment_that_is_not_in_force_cannot_be_named(installed):
    installed()
    with pytest.raises(ConfigError, match=r"'elsewhere': this process is not in that environment.*\[LT122\]"):
        Trainer(plugins=["elsewhere"], **QUIET)


def test_two_of_one_kind_are_an_error_by_name_too(installed):
    installed()
    with pytest.raises(ConfigError, match="plugins holds Halved and Precision: expected at most one Precision"):
        Trainer(plugins=["Halved", Precision()], **QUIET)


def test_the_environment_of_the_highest_priority_counts(installed):
    installed("a = named_plugins:A\nb = named_plugins:B\n")
    assert Trainer(**QUIET).strategy.environment.restart_count == 2


class Theirs(CheckpointIO):
    """Written for Lightning: it takes what Lightning's interface has."""

    def save_checkpoint(self, checkpoint, path, storage_options=None):
        super().save_checkpoint({**checkpoint, "tag": 1}, path, storage_options)

    def load_checkpoint(self, path, map_location=None):
        tree = super().load_checkpoint(path, map_location, weights_only=True)
        self.tag = tree["tag"]
        return tree

    def remove_checkpoint(self, path):
        super().remove_checkpoint(path)


def test_a_checkpoint_io_with_lightnings_signatures_saves_and_resumes(trainer, net, loader, tmp_path):
    run = trainer(plugins=[Theirs()])
    run.fit(net(), loader(8))
    run.save_checkpoint(tmp_path / "a.ckpt")
    io = Theirs()
    again = trainer(plugins=[io], max_epochs=2)
    again.fit(net(), loader(8), ckpt_path=tmp_path / "a.ckpt")
    assert (io.tag, again.current_epoch) == (1, 2)
