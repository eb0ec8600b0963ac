# Written by tools/stubs.py from [tool.lt.names] of the packages.

from lt_recipes.cross_entropy import chunked_cross_entropy as chunked_cross_entropy
from lt_recipes.layers import layerwise_lr as layerwise_lr
from lt_recipes.packing import packed_mask as packed_mask
from lt_recipes.sam import SAM as SAM
from lt_recipes.schedules import schedule as schedule
from lt_recipes.soft_targets import CutMix as CutMix
from lt_recipes.soft_targets import LabelSmoothing as LabelSmoothing
from lt_recipes.soft_targets import Mixup as Mixup
from lt_recipes.supervised import Supervised as Supervised

__all__ = [
    "CutMix",
    "LabelSmoothing",
    "Mixup",
    "SAM",
    "Supervised",
    "chunked_cross_entropy",
    "layerwise_lr",
    "packed_mask",
    "schedule",
]
