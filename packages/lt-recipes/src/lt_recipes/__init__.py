"""Training code that projects copy from each other: papers' additions to a step, modules, orders of samples, `when`."""

from importlib.metadata import version

from lt_recipes.block_shuffle import BlockShuffle
from lt_recipes.cross_entropy import chunked_cross_entropy
from lt_recipes.filtered import when
from lt_recipes.layers import layerwise_lr
from lt_recipes.packing import pack, packed_mask
from lt_recipes.preparing import prepare_once
from lt_recipes.reread import Reread
from lt_recipes.sam import SAM
from lt_recipes.schedules import schedule
from lt_recipes.soft_targets import CutMix, LabelSmoothing, Mixup
from lt_recipes.supervised import Supervised
from lt_recipes.token_budget import TokenBudget

__version__ = version("lt-recipes")

__all__ = [
    "SAM",
    "BlockShuffle",
    "CutMix",
    "LabelSmoothing",
    "Mixup",
    "Reread",
    "Supervised",
    "TokenBudget",
    "chunked_cross_entropy",
    "layerwise_lr",
    "pack",
    "packed_mask",
    "prepare_once",
    "schedule",
    "when",
]
