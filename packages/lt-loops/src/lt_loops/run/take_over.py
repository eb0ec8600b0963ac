"""Results of a run in other processes, taken over by the process that started it."""

from typing import Any

from lt_core.errors import warn
from lt_core.launcher import RunResult
from lt_core.module import LightningModule
from lt_loops.run.frame import Run
from lt_loops.setup.hooks import defines


def take_over(run: Run, result: RunResult) -> None:
    """Bring the results of a run in other processes into this one."""
    run.saves.together = False  # first: a callback below may save, and no other process takes part
    run.position.load_state_dict(result.position)
    run.data.samples_elsewhere = result.position.get("samples_of_epoch", 0)
    run.stopping.reason, run.stopping.signal = result.stop_reason, result.signal
    if result.weights is not None:
        take_weights(run.module, result.weights)
        _take_beyond_weights(run.module, result.beyond_weights)
    run.loaders.take_setup_draws(result.setup_draws)
    run.recorder.take_published(result.metrics)
    for callback in run.callbacks:
        if state := result.callbacks.get(callback.state_key):
            callback.load_state_dict(state)
        if run.stage == "fit":
            callback._lt_fitted_in = run.origin.header.run
        callback.take_over(run.trainer)
    run.open_log()  # it never began here, so it has none yet
    for logger, state in zip(run.loggers, result.loggers, strict=False):
        run.log.guarded(logger, logger.load_state_dict, state)
        if run.stage == "fit":
            logger._lt_fitted_in = run.origin.header.run


def take_weights(module: LightningModule, weights: dict[str, Any]) -> None:
    """Load the weights that a run returned.

    Where layers are made in ``configure_model``, they exist on the ranks only so far, and are made here too.
    """
    failed: Exception | None = None
    if not set(weights) <= set(module.state_dict()) and defines(module, "configure_model"):
        try:
            module.configure_model()
        except Exception as error:  # sharding needs the ranks; the layers that it made before are enough
            failed = error
    try:
        module.load_state_dict(weights)
    except RuntimeError as error:  # torch's, which has loaded the weights that fit
        why = " ".join(str(failed or error).split())
        warn(
            f"Not all of the trained weights are in the module here: {type(module).__name__} has other layers than on "
            f"the ranks, where setup, configure_model or a hook made or changed them ({why:.300}). Go on with "
            "ckpt_path='last' or a checkpoint, or start the ranks by the launcher 'script' or torchrun.",
            code="LT218",
        )


def _take_beyond_weights(module: LightningModule, beyond: dict[str, Any]) -> None:
    parts, trained = beyond.get("parts", {}), beyond.get("trained", {})
    for name, part in module.named_modules():
        part.training, buffers = parts.get(name, (part.training, {}))
        for leaf in buffers.keys() & part._buffers.keys():
            part._buffers[leaf] = buffers[leaf].to(getattr(part._buffers[leaf], "device", None))
    for name, param in module.named_parameters():
        param.requires_grad_(trained.get(name, param.requires_grad))
