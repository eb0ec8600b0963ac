"""Training code that projects copy from each other: what papers add to a step, modules without subclasses, `when`."""

from importlib.metadata import version

from lt_recipes.filtered import when
from lt_recipes.layers import layerwise_lr
from lt_recipes.sam import SAM
from lt_recipes.soft_targets import CutMix, LabelSmoothing, Mixup
from lt_recipes.supervised import Supervised

__version__ = version("lt-recipes")

__all__ = ["SAM", "CutMix", "LabelSmoothing", "Mixup", "Supervised", "layerwise_lr", "when"]
