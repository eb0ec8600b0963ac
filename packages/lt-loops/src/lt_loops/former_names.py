"""Names of Lightning 1.x and today's: plain data, for errors where no installed package understands the old ones.

lt-compat understands them all (:mod:`lt_core.dialect`); lt itself knows none of their meanings.
"""

from collections.abc import Mapping

from lt_core.plugins import install_hint

ARGUMENTS: Mapping[str, str] = {
    "amp_backend": "precision='16-mixed'",
    "amp_level": "precision='16-mixed'",
    "auto_lr_find": "Tuner(trainer).lr_find(model)",
    "auto_scale_batch_size": "Tuner(trainer).scale_batch_size(model)",
    "auto_select_gpus": "devices=1",
    "checkpoint_callback": "enable_checkpointing=..., or callbacks=[ModelCheckpoint(...)]",
    "default_save_path": "default_root_dir=...",
    "distributed_backend": "strategy=...",
    "early_stop_callback": "callbacks=[EarlyStopping(monitor='val_loss')]",
    "flush_logs_every_n_steps": "nothing: loggers write by themselves",
    "gpus": "accelerator='gpu', devices=...",
    "ipus": "another accelerator: IPUs have none here",
    "log_gpu_memory": "callbacks=[DeviceStatsMonitor()]",
    "log_save_interval": "nothing: loggers write by themselves",
    "max_nb_epochs": "max_epochs=...",
    "min_nb_epochs": "min_epochs=...",
    "move_metrics_to_cpu": "nothing: metrics stay where they are computed",
    "multiple_trainloader_mode": "CombinedLoader(loaders, mode=...)",
    "nb_gpu_nodes": "num_nodes=...",
    "num_processes": "accelerator='cpu', devices=...",
    "overfit_pct": "overfit_batches=...",
    "process_position": "callbacks=[TQDMProgressBar(process_position=...)]",
    "progress_bar_refresh_rate": "callbacks=[TQDMProgressBar(refresh_rate=...)], or enable_progress_bar=False",
    "reload_dataloaders_every_epoch": "reload_dataloaders_every_n_epochs=1",
    "replace_sampler_ddp": "use_distributed_sampler=...",
    "resume_from_checkpoint": "trainer.fit(model, ckpt_path=...)",
    "row_log_interval": "log_every_n_steps=...",
    "stochastic_weight_avg": "callbacks=[StochasticWeightAveraging(swa_lrs=...)]",
    "terminate_on_nan": "detect_anomaly=...",
    "test_percent_check": "limit_test_batches=...",
    "tpu_cores": "accelerator='tpu', devices=...",
    "track_grad_norm": "self.log_dict(grad_norm(self, 2)) in on_before_optimizer_step",
    "train_percent_check": "limit_train_batches=...",
    "truncated_bptt_steps": "self.truncated_bptt_steps = ... in the module",
    "val_percent_check": "limit_val_batches=...",
    "weights_save_path": "callbacks=[ModelCheckpoint(dirpath=...)]",
    "weights_summary": "callbacks=[ModelSummary(max_depth=...)], or enable_model_summary=False",
}
"""Arguments of ``Trainer(...)``."""

HOOKS: Mapping[str, str] = {
    "configure_sharded_model": "configure_model",
    "on_batch_end": "on_train_batch_end",
    "on_batch_start": "on_train_batch_start",
    "on_epoch_end": "on_train_epoch_end, on_validation_epoch_end or on_test_epoch_end",
    "on_epoch_start": "on_train_epoch_start, on_validation_epoch_start or on_test_epoch_start",
    "on_init_end": "setup(trainer, pl_module, stage)",
    "on_init_start": "setup(trainer, pl_module, stage)",
    "on_pretrain_routine_end": "on_fit_start",
    "on_pretrain_routine_start": "on_fit_start",
    "tbptt_split_batch": "the split in training_step, with automatic_optimization = False",
    "test_epoch_end": "on_test_epoch_end, and keep the outputs in test_step",
    "test_step_end": "its lines at the end of test_step",
    "training_epoch_end": "on_train_epoch_end, and keep the outputs in training_step",
    "training_step_end": "its lines at the end of training_step",
    "validation_epoch_end": "on_validation_epoch_end, and keep the outputs in validation_step",
    "validation_step_end": "its lines at the end of validation_step",
}
"""Hooks of modules and callbacks."""

PARAMETERS: Mapping[str, str] = {
    "callback_state": "checkpoint (the whole of it), or load_state_dict(self, state_dict)",
    "checkpointed_state": "checkpoint (the whole of it), or load_state_dict(self, state_dict)",
    "dataloader_idx": "the arguments without it: the hook gets the batches of one loader",
    "hiddens": "self.automatic_optimization = False, and go through the parts of a batch in training_step",
    "lambda_closure": "optimizer_closure",
    "on_tpu": "the arguments without it",
    "opt_idx": "the arguments without it",
    "optimizer_idx": "a dict of optimizers by name, or self.automatic_optimization = False",
    "outputs": "the arguments without it, and keep the outputs in the step",
    "second_order_closure": "optimizer_closure",
    "unused": "the arguments without it",
    "use_amp": "the arguments without it",
    "using_lbfgs": "the arguments without it",
    "using_native_amp": "the arguments without it",
}
"""Parameters of hooks and of ``training_step`` that nothing fills by its place, where none has this name today."""

OUTPUTS: Mapping[str, str] = {
    "log": "self.log_dict({...}) in the step",
    "progress_bar": "self.log_dict({...}, prog_bar=True) in the step",
}
"""Keys in the result of a step."""


def understood_by(what: str = "the old spelling") -> str:
    """Return the end of an error: how to install lt-compat, which supports ``what``."""
    return f"Or install lt-compat, which supports {what}: {install_hint('lt-compat')}"
