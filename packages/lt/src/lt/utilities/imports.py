"""Names of `lightning.pytorch.utilities.imports`, under the same path."""

from lt.lazy import lazy

NAMES = {
    "_BITSANDBYTES_AVAILABLE": "lt_cli.lightning_answers:_BITSANDBYTES_AVAILABLE",
    "_JSONARGPARSE_AVAILABLE": "lt_cli.lightning_answers:_JSONARGPARSE_AVAILABLE",
    "_MATPLOTLIB_AVAILABLE": "lt_cli.lightning_answers:_MATPLOTLIB_AVAILABLE",
    "_NUMPY_AVAILABLE": "lt_cli.lightning_answers:_NUMPY_AVAILABLE",
    "_OMEGACONF_AVAILABLE": "lt_cli.lightning_answers:_OMEGACONF_AVAILABLE",
    "_RICH_AVAILABLE": "lt_cli.lightning_answers:_RICH_AVAILABLE",
    "_TENSORBOARDX_AVAILABLE": "lt_cli.lightning_answers:_TENSORBOARDX_AVAILABLE",
    "_TENSORBOARD_AVAILABLE": "lt_cli.lightning_answers:_TENSORBOARD_AVAILABLE",
    "_TORCHMETRICS_AVAILABLE": "lt_cli.lightning_answers:_TORCHMETRICS_AVAILABLE",
    "_TORCHVISION_AVAILABLE": "lt_cli.lightning_answers:_TORCHVISION_AVAILABLE",
    "_TORCH_GREATER_EQUAL_2_0": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_0",
    "_TORCH_GREATER_EQUAL_2_1": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_1",
    "_TORCH_GREATER_EQUAL_2_2": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_2",
    "_TORCH_GREATER_EQUAL_2_3": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_3",
    "_TORCH_GREATER_EQUAL_2_4": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_4",
    "_TORCH_GREATER_EQUAL_2_5": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_5",
    "_TORCH_GREATER_EQUAL_2_6": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_6",
    "_TORCH_GREATER_EQUAL_2_7": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_7",
    "_TORCH_GREATER_EQUAL_2_8": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_8",
    "_TORCH_GREATER_EQUAL_2_9": "lt_cli.lightning_answers:_TORCH_GREATER_EQUAL_2_9",
    "_TQDM_AVAILABLE": "lt_cli.lightning_answers:_TQDM_AVAILABLE",
    "_WANDB_AVAILABLE": "lt_cli.lightning_answers:_WANDB_AVAILABLE",
}
"""Each name, and where it comes from."""

__all__ = [*NAMES]
__getattr__, __dir__ = lazy(__name__, NAMES)
