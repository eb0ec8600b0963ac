"""The umbrella: every name is there, is the same object as in its package, and costs nothing until it is used."""

import subprocess
import sys
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec

import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader

import lt
import lt_loops
from lt.names import NAMES
from lt_compat.names.paths import NAMES as LIGHTNINGS

TABLES = {f"lt.{module}" if module else "lt": names for module, names in NAMES.items()}
PATHS = {f"lt.{module}": names for module, names in LIGHTNINGS.items()}


@pytest.mark.parametrize("module", [*TABLES, *PATHS])
def test_every_name_of_the_table_is_there(module):
    holder, names = import_module(module), (TABLES | PATHS)[module]
    for name in set(names) - ({"Tqdm"} if find_spec("tqdm") is None else set()):
        assert getattr(holder, name) is not None
    assert set(names) <= set(holder.__all__) <= set(dir(holder))


@pytest.mark.parametrize("module", [*TABLES, *PATHS])
def test_every_module_is_an_attribute_of_the_one_above(module):
    parent, _, child = module.rpartition(".")
    if parent:
        assert getattr(import_module(parent), child) is import_module(module)


def test_a_folder_that_an_older_version_left_behind_hides_no_module(tmp_path):
    (tmp_path / "lt" / "callbacks" / "__pycache__").mkdir(parents=True)
    left = str(tmp_path / "lt")
    code = f"import lt; lt.__path__.append({left!r}); from lt.callbacks import Timer; print(Timer.__name__)"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "Timer"


@pytest.mark.parametrize("module", ["lt.metrics", "lt.fabric", "lt.nope", "lt.callbacks.nope"])
def test_a_module_that_is_not_there_is_none_to_code_that_asks_and_an_error_to_code_that_imports(module):
    assert find_spec(module) is None
    with pytest.raises(ModuleNotFoundError):
        import_module(module)


def test_the_import_of_a_module_that_lt_leaves_to_others_says_so():
    with pytest.raises(ModuleNotFoundError, match="torchmetrics"):
        import_module("lt.metrics")


def test_no_path_of_lightning_stands_in_the_way_of_a_module_of_lt():
    assert not set(TABLES) & set(PATHS)


def test_a_name_of_a_package_that_is_not_installed_says_which(monkeypatch):
    monkeypatch.setitem(NAMES["testing"], "Missing", "lt_missing.part:Missing")
    with pytest.raises(
        ModuleNotFoundError, match=r"lt\.testing\.Missing comes with lt-missing: (uv )?pip install .*lt-missing"
    ):
        exec("from lt.testing import Missing")


def test_the_trainer_is_the_loops_own():
    assert lt.Trainer is lt_loops.Trainer is lt.trainer.trainer.Trainer


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match="module 'lt' has no attribute 'Trianer'"):
        _ = lt.Trianer
    with pytest.raises(ImportError, match="Trianer"):
        exec("from lt import Trianer")


def test_importing_lt_imports_neither_torch_nor_any_package():
    code = "import sys, lt, lt.callbacks, lt.loggers; print([m for m in sys.modules if m.startswith(('torch', 'lt_'))])"
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"


def public_names(package):
    """Yield name and object of what a package makes public; one that cannot be imported is that package's affair."""
    holder = import_module(package)
    for name in getattr(holder, "__all__", ()):
        with suppress(ImportError, AttributeError):
            yield name, getattr(holder, name)


@pytest.mark.parametrize(
    "package",
    [
        "lt_loops",
        "lt_data",
        "lt_strategies",
        "lt_loggers",
        "lt_callbacks",
        "lt_cli",
        "lt_testing",
        "lt_recipes",
        "lt_huggingface",
    ],
)
def test_lt_names_all_that_a_package_makes_public(package):
    places = [place.partition(":") for names in TABLES.values() for place in names.values()]
    known = [getattr(import_module(origin), attribute) for origin, _, attribute in places]
    unnamed = [name for name, thing in public_names(package) if not any(thing is other for other in known)]
    assert not unnamed, f"add {unnamed} to [tool.lt.names] of {package}, then run tools/stubs.py"


OLD_PATHS = {
    "lt.core.lightning:LightningModule": "lt_core.module:LightningModule",
    "lt.core.datamodule:LightningDataModule": "lt_data:LightningDataModule",
    "lt.trainer.trainer:Trainer": "lt_loops:Trainer",
    "lt.callbacks.base:Callback": "lt_core.callback:Callback",
    "lt.loggers.base:LightningLoggerBase": "lt_core.logger:Logger",
    "lt.profiler:SimpleProfiler": "lt_profilers.simple:SimpleProfiler",
    "lt.utilities.distributed:rank_zero_only": "lt_compat.lightning.rank_zero:rank_zero_only",
    "lt.utilities:MisconfigurationException": "lt_core.errors:MisconfigurationException",
    "lt.utilities.apply_func:move_data_to_device": "lt_core.batch:move_to_device",
    "lt.utilities.cli:LightningCLI": "lt_cli:LightningCLI",
    "lt.plugins:DDPPlugin": "lt_strategies.ddp:DDP",
    "lt.demos.boring_classes:BoringModel": "lt_compat.lightning.demos:BoringModel",
}


@pytest.mark.parametrize("path", OLD_PATHS)
def test_the_paths_of_the_old_guides_lead_to_the_very_classes(path):
    def at(place):
        module, _, name = place.partition(":")
        return getattr(import_module(module), name)

    assert at(path) is at(OLD_PATHS[path])


def test_names_that_public_code_imports_from_lightnings_helpers_do_their_work():
    from lt.utilities.data import has_iterable_dataset, sized_len
    from lt.utilities.exceptions import SIGTERMException
    from lt.utilities.imports import _NUMPY_AVAILABLE, _TORCH_GREATER_EQUAL_2_0
    from lt.utilities.parsing import lightning_setattr
    from lt.utilities.rank_zero import WarningCache

    assert (_NUMPY_AVAILABLE in (True, False), _TORCH_GREATER_EQUAL_2_0, SIGTERMException) == (True, True, SystemExit)
    loader = DataLoader([1, 2, 3], batch_size=2)
    assert (sized_len(loader), sized_len(range), has_iterable_dataset(loader)) == (2, None, False)
    module = lt.LightningModule()
    module.lr = 1
    lightning_setattr(module, "lr", 2)
    assert module.lr == 2
    cache = WarningCache()
    with pytest.warns(UserWarning, match="once") as told:
        cache.warn("once")
    cache.warn("once")  # a second warning would be an error here
    assert len(told) == 1


def test_shared_parameters_are_found_and_shared_again():
    from lt.utilities import find_shared_parameters, set_shared_parameters

    module = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    module[1].weight = module[0].weight
    shared = find_shared_parameters(module)
    assert shared == [["0.weight", "1.weight"]]
    module[1].weight = nn.Parameter(torch.ones(2, 2))
    assert set_shared_parameters(module, shared)[1].weight is module[0].weight
