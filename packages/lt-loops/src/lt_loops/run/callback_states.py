"""The states of a run's callbacks, and their hooks that see a checkpoint."""

from functools import partial

from lt_core.callback import Callback
from lt_core.errors import warn
from lt_core.interface import is_overridden
from lt_loops.run.job import Context, Owner
from lt_loops.setup.hooks import BoundHook, Hook, before_run, why_unfit
from lt_loops.state.origin import Saved, StateDict, own_copy
from lt_loops.state.unsaved import Unsaved


class CallbackStates(Owner):
    """Saves the states of the callbacks, and calls their hooks that see a checkpoint."""

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._callbacks, self._trainer = context.job.parts.callbacks, context.job.trainer

    def begin_fit(self, run: str, *, resumes: bool) -> None:
        """Have those begin anew that served another run, or whose state a checkpoint holds."""
        for callback in self._callbacks:
            if callback._lt_fitted_in and (resumes or callback._lt_fitted_in != run):
                callback.begin_anew(self._trainer)
            callback._lt_fitted_in = run

    def states(self, unsaved: Unsaved) -> StateDict:
        """Return the state of each callback that has one, by its key."""
        every = self._callbacks
        found = {cb.state_key: unsaved.optional(f"the state of {cb.state_key}", cb.state_dict) for cb in every}
        return {key: state for key, state in found.items() if state}

    def call_save_hooks(self, tree: StateDict, unsaved: Unsaved, whole: bool) -> None:
        """Call ``on_save_checkpoint``; a dict that it returns is the callback's state.

        For a file of weights alone call those that change the weights, and take nothing else of what they do.
        """
        seen = tree if whole else {"state_dict": tree["state_dict"], "callbacks": {}}
        for callback in self._callbacks:
            if whole or callback.changes_weights:
                unsaved.optional(f"on_save_checkpoint of {callback.state_key}", partial(self._save, callback, seen))
        tree["state_dict"] = seen["state_dict"]

    def _save(self, callback: Callback, tree: StateDict) -> None:
        hook = self._hook(callback, "on_save_checkpoint")
        returned = hook(tree) if hook is not None else None
        if isinstance(returned, dict):
            tree["callbacks"].setdefault(callback.state_key, returned)

    def call_load_hooks(self, saved: Saved) -> None:
        """Call ``on_load_checkpoint``; then take the trained weights where a file holds averages in their place."""
        for callback in self._callbacks:
            if (hook := self._hook(callback, "on_load_checkpoint")) is not None:
                hook(saved.tree)
        trained = saved.tree.get("current_model_state")  # Lightning's key too
        if not saved.resumes or not isinstance(trained, dict) or saved.tree.get("state_dict") is trained:
            return
        saved.tree["state_dict"] = trained
        if saved.rank == 0:
            warn(
                f"{saved.path} holds averaged weights, and this Trainer has no callback that goes on with the "
                "average. Training goes on from the weights that were trained; the average is dropped. To go on with "
                "it, give the Trainer the callback of the run that is resumed (WeightAveraging, EMAWeightAveraging).",
                code="LT626",
            )

    def _hook(self, callback: Callback, name: str) -> Hook | None:
        """Return a callback's hook that takes the checkpoint, or None; it may be called where no run is going on."""
        if not is_overridden(callback, name, Callback):
            return None
        trainer, module, policy = self._trainer, self._job.given, self._job.policy
        hook = BoundHook(getattr(callback, name), trainer, module)
        if why_unfit(hook, name, ("checkpoint",), policy) is None:
            return hook
        (_, called), _ = before_run(trainer, module, [callback], policy)
        return BoundHook(next(getattr(cb, name) for cb in called if is_overridden(cb, name, Callback)), trainer, module)

    def load(self, saved: Saved) -> None:
        states, settings = saved.tree.get("callbacks") or {}, self._settings
        keys = [cb.state_key if cb.state_key in states else type(cb).__qualname__ for cb in self._callbacks]
        for callback, key in zip(self._callbacks, keys, strict=True):
            # which files are kept, and with how much patience, is training's: test("best") leaves it as it is
            if (state := states.get(key)) and (saved.resumes or not callback.role):
                callback.load_state_dict(own_copy(state))
        unused = [key for key in states if key not in keys]
        if unused and saved.resumes and not (settings.fast_dev_run or settings.barebones):
            mine = ", ".join(cb.state_key for cb in self._callbacks) or "none"
            warn(
                f"{saved.path} holds the state of {', '.join(map(str, unused))}, and this Trainer has no such "
                "callback: it is not used, and not in the checkpoints from here on. Give the Trainer the callbacks of "
                f"the run that is resumed, with the same arguments; it has {mine}.",
                code="LT606",
            )
