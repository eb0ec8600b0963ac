"""Warnings that users turn off by Lightning's text: lt's of the same meaning are off too."""

from __future__ import annotations

import warnings

__all__ = ["codes_filtered_by_text"]

_SAME = {
    "LT142": "`max_epochs` was not set. Setting it to 1000 epochs. To train without an epoch limit",
    "LT215": "You passed in a `val_dataloader` but have no `validation_step`. Skipping val loop.",
    "LT225": "`training_step` returned `None`. If this was on purpose, ignore this warning...",
    "LT321": "ReduceLROnPlateau conditioned on metric val_loss which is not available",
    "LT331": "`LightningModule.configure_optimizers` returned `None`",
    "LT406": "You requested to overfit but enabled train dataloader shuffling.",
    "LT408": "Total length of `DataLoader` across ranks is zero. Please make sure this was your intention.",
    "LT451": "Your `IterableDataset` has `__len__` defined.",
    "LT455": "Using `DistributedSampler` with the dataloaders.",
    "LT510": "Trying to infer the `batch_size` from an ambiguous collection.",
    "LT549": "Experiment logs directory version_0 exists and is not empty.",
    "LT606": "Be aware that when using `ckpt_path`, callbacks used to create the checkpoint need to be provided",
    "LT651": "Attribute 'model' is an instance of `nn.Module` and is already saved during checkpointing.",
    "LT918": '.fit(ckpt_path="last") is set, but there is no last checkpoint available. No checkpoint will be loaded.',
    "LT921": "The number of training batches (2) is smaller than the logging interval Trainer(log_every_n_steps=50).",
}
"""By lt's code, the beginning of what Lightning 2.6 says there."""


def codes_filtered_by_text() -> list[str]:
    """Return the codes of lt's warnings for which Lightning's text is turned off by a filter of this process."""
    off = [message for action, message, *_ in warnings.filters if action == "ignore" and message is not None]
    return [code for code, text in _SAME.items() if any(message.match(text) for message in off)]
