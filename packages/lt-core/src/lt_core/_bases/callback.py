"""The part of a callback beside its hooks: its place, its role, its state."""

from __future__ import annotations

from typing import Any

__all__ = ["CallbackBase"]


class CallbackBase:
    """The part of a ``Callback`` that knows no Trainer, so that a description of a Trainer can name it.

    Attributes:
        before: names of callback classes that this one must precede.
        after: names of callback classes that this one must follow.
        priority: where neither says it, lower numbers come first; equal ones keep the user's order.
        monitors: reads logged metrics at the end of an epoch; one that waits for a single metric has its name as
            ``monitor``, which is looked at in the sanity check.
        role: which of the Trainer's defaults this callback stands in for: ``"progress_bar"``, ``"summary"``,
            ``"checkpoint"``, or none. The default is left out where the user gives one of the same role; for an
            ``"exception_checkpoint"`` it stays, and ``ckpt_path="last"`` searches the ``dirpath`` of both.
        changes_weights: its ``on_save_checkpoint`` puts other weights into ``checkpoint["state_dict"]``. It is called
            for files of weights alone too, with nothing but the weights; other callbacks see whole checkpoints only.
        batch_hooks_every: which optimizer steps its training batch hooks must see one by one where several are one
            CUDA graph (``step=GraphSteps(8)``): 1 for each, n for every n-th, 0 for none in particular;
            a subclass with such a hook of its own has 1 where it says nothing.
            In between ``outputs`` is empty, and weights and counters are from the last finished step.
    """

    before: tuple[str, ...] = ()
    after: tuple[str, ...] = ()
    priority: int = 0
    monitors: bool = False
    role: str = ""
    changes_weights: bool = False
    batch_hooks_every: int = 1
    _lt_logs_as: Any = None  # the module of the present run
    _lt_fitted_in: str = ""  # the name of the last fit's run

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        hooks = vars(cls).keys() & {"on_train_batch_start", "on_train_batch_end"}
        if hooks and "batch_hooks_every" not in vars(cls):
            cls.batch_hooks_every = 1

    @property
    def state_key(self) -> str:
        """Key of this callback's state in a checkpoint; two of one class need different ones."""
        return type(self).__qualname__

    def _generate_state_key(self, **settings: Any) -> str:
        """Return a state key made of the class's name and the settings in which two of a class differ."""
        return f"{type(self).__qualname__}{settings!r}"

    def state_dict(self) -> dict[str, Any]:
        """Return the state for a resume, as plain data and tensors."""
        return {}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Load the result of :meth:`state_dict`; called before ``on_fit_start``."""

    def explain(self) -> str:
        """Return a short description for ``trainer.explain()``; empty to list the hooks."""
        return ""

    def _lt_log_as(self, module: Any) -> None:
        """Log through ``module`` during its run; None: nowhere."""
        self._lt_logs_as = module

    def log(self, name: str, value: Any, *args: Any, **kwargs: Any) -> None:
        """Log as ``LightningModule.log`` does; outside of a run nothing happens."""
        if self._lt_logs_as is not None:
            self._lt_logs_as.log(name, value, *args, **kwargs)

    def log_dict(self, dictionary: Any, *args: Any, **kwargs: Any) -> None:
        """Log each item of ``dictionary`` as ``LightningModule.log_dict`` does; outside of a run nothing happens."""
        if self._lt_logs_as is not None:
            self._lt_logs_as.log_dict(dictionary, *args, **kwargs)

    def on_saved(self, path: str) -> None:
        """A checkpoint that this callback asked for by ``trainer.request_save(path, owner=self)`` is with the writer.

        It is complete, or is being written in the background. Later calls of ``trainer.checkpoint_io`` and
        ``trainer.remove_checkpoint`` take effect after the write, and are dropped where it fails; then
        :meth:`on_save_failed` follows, before the next checkpoint is written or as the run ends.
        """

    def on_save_failed(self, path: str, error: BaseException) -> None:
        """A checkpoint requested by this callback could not be written; training continues."""
