# Written by tools/stubs.py from the table in the module beside it.

from lt_cli.lightning_answers import _BITSANDBYTES_AVAILABLE as _BITSANDBYTES_AVAILABLE
from lt_cli.lightning_answers import _JSONARGPARSE_AVAILABLE as _JSONARGPARSE_AVAILABLE
from lt_cli.lightning_answers import _MATPLOTLIB_AVAILABLE as _MATPLOTLIB_AVAILABLE
from lt_cli.lightning_answers import _NUMPY_AVAILABLE as _NUMPY_AVAILABLE
from lt_cli.lightning_answers import _OMEGACONF_AVAILABLE as _OMEGACONF_AVAILABLE
from lt_cli.lightning_answers import _RICH_AVAILABLE as _RICH_AVAILABLE
from lt_cli.lightning_answers import _TENSORBOARDX_AVAILABLE as _TENSORBOARDX_AVAILABLE
from lt_cli.lightning_answers import _TENSORBOARD_AVAILABLE as _TENSORBOARD_AVAILABLE
from lt_cli.lightning_answers import _TORCHMETRICS_AVAILABLE as _TORCHMETRICS_AVAILABLE
from lt_cli.lightning_answers import _TORCHVISION_AVAILABLE as _TORCHVISION_AVAILABLE
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_0 as _TORCH_GREATER_EQUAL_2_0
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_1 as _TORCH_GREATER_EQUAL_2_1
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_2 as _TORCH_GREATER_EQUAL_2_2
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_3 as _TORCH_GREATER_EQUAL_2_3
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_4 as _TORCH_GREATER_EQUAL_2_4
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_5 as _TORCH_GREATER_EQUAL_2_5
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_6 as _TORCH_GREATER_EQUAL_2_6
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_7 as _TORCH_GREATER_EQUAL_2_7
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_8 as _TORCH_GREATER_EQUAL_2_8
from lt_cli.lightning_answers import _TORCH_GREATER_EQUAL_2_9 as _TORCH_GREATER_EQUAL_2_9
from lt_cli.lightning_answers import _TQDM_AVAILABLE as _TQDM_AVAILABLE
from lt_cli.lightning_answers import _WANDB_AVAILABLE as _WANDB_AVAILABLE

__all__ = [
    "_BITSANDBYTES_AVAILABLE",
    "_JSONARGPARSE_AVAILABLE",
    "_MATPLOTLIB_AVAILABLE",
    "_NUMPY_AVAILABLE",
    "_OMEGACONF_AVAILABLE",
    "_RICH_AVAILABLE",
    "_TENSORBOARDX_AVAILABLE",
    "_TENSORBOARD_AVAILABLE",
    "_TORCHMETRICS_AVAILABLE",
    "_TORCHVISION_AVAILABLE",
    "_TORCH_GREATER_EQUAL_2_0",
    "_TORCH_GREATER_EQUAL_2_1",
    "_TORCH_GREATER_EQUAL_2_2",
    "_TORCH_GREATER_EQUAL_2_3",
    "_TORCH_GREATER_EQUAL_2_4",
    "_TORCH_GREATER_EQUAL_2_5",
    "_TORCH_GREATER_EQUAL_2_6",
    "_TORCH_GREATER_EQUAL_2_7",
    "_TORCH_GREATER_EQUAL_2_8",
    "_TORCH_GREATER_EQUAL_2_9",
    "_TQDM_AVAILABLE",
    "_WANDB_AVAILABLE",
]
