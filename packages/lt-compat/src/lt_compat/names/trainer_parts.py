"""Insides of Lightning's Trainer that people read."""

from __future__ import annotations

__all__ = ["TRAINER_PARTS"]

_LOOP = "the loops are functions: read trainer.max_epochs, current_epoch, global_step, num_training_batches"

TRAINER_PARTS = {
    **dict.fromkeys(("fit_loop", "validate_loop", "test_loop", "predict_loop", "train_loop"), _LOOP),
    **dict.fromkeys(("_results", "_logger_connector"), "read trainer.callback_metrics, logged_metrics, loggers"),
    "_accelerator_connector": "ask the Trainer: strategy, num_devices, num_nodes",
    "_callback_connector": "read trainer.callbacks",
    "_checkpoint_connector": "write trainer.save_checkpoint(path), or fit(ckpt_path=...)",
    "_data_connector": "give loaders to fit, or set reload_dataloaders_every_n_epochs",
    "_signal_connector": "set trainer.on_signal",
}
"""Insides of Lightning's Trainer that lt's has not, and remedies."""
