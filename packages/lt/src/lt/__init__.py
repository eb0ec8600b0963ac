"""Train PyTorch models: `import lt as pl`.

The names of lt's packages in one place, under the import paths that users of lightning.pytorch know. Nothing is
imported before it is used, and nothing here does anything: `lt.Trainer is lt_loops.Trainer`.
"""

from lt.lazy import lazy

NAMES = {
    "Callback": "lt_core.callback:Callback",
    "LightningDataModule": "lt_data:LightningDataModule",
    "LightningModule": "lt_core.module:LightningModule",
    "Trainer": "lt_loops:Trainer",
    "__version__": "lt.version:__version__",
    "seed_everything": "lt_core.seed:seed_everything",
}
"""Each name, and where it comes from."""

MODULES = (
    "accelerators",
    "callbacks",
    "cli",
    "compat",
    "core",
    "data",
    "demos",
    "errors",
    "launchers",
    "loggers",
    "media",
    "plugins",
    "profiler",
    "profilers",
    "strategies",
    "testing",
    "trainer",
    "tuner",
    "utilities",
)
"""Submodules, imported when asked for."""

__all__ = [*NAMES, *MODULES]
__getattr__, __dir__ = lazy(__name__, NAMES, MODULES)
