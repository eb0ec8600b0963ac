"""Training recipes: what papers add to a plain training step, as callbacks, an optimizer and parameter groups."""

from importlib.metadata import version

from lt_recipes.layers import layerwise_lr
from lt_recipes.sam import SAM
from lt_recipes.soft_targets import CutMix, LabelSmoothing, Mixup

__version__ = version("lt-recipes")

__all__ = ["SAM", "CutMix", "LabelSmoothing", "Mixup", "layerwise_lr"]
