"""Our launchers on the kit that strangers use."""

import pytest
from tests.patience import PATIENCE

from lt_strategies import ForkLauncher, ForkserverLauncher, ScriptLauncher, SpawnLauncher
from lt_testing import LauncherKit


@pytest.mark.ddp
class TestFork(LauncherKit):
    patience = PATIENCE

    def make_launcher(self):
        return ForkLauncher()


@pytest.mark.ddp
@pytest.mark.slow
class TestSpawn(LauncherKit):
    patience = PATIENCE

    def make_launcher(self):
        return SpawnLauncher()


@pytest.mark.ddp
@pytest.mark.slow
class TestForkserver(LauncherKit):
    patience = PATIENCE

    def make_launcher(self):
        return ForkserverLauncher()


@pytest.mark.ddp
@pytest.mark.slow
class TestScript(LauncherKit):
    patience = PATIENCE

    def make_launcher(self):
        return ScriptLauncher()
