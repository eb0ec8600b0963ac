"""The states of a run's callbacks, and their hooks that see a checkpoint."""

from __future__ import annotations

from functools import partial
from typing import Any

from lt_core.callback import Callback
from lt_core.errors import warn
from lt_core.files.checkpoint_header import Contents
from lt_core.module import LightningModule
from lt_core.trainer import TrainerAPI
from lt_loops.setup.hook_calls import callback_hook
from lt_loops.state.gaps import Gaps
from lt_loops.state.owner import Owner, Restore, Saved, own_copy


class CallbackStates(Owner):
    """Saves the states of the callbacks, and calls their hooks that see a checkpoint.

    Attributes:
        all: the callbacks; the Trainer's own list.
    """

    def __init__(self, callbacks: list[Callback], trainer: TrainerAPI, module: LightningModule, *, quiet: bool) -> None:
        """Keep ``callbacks``; ``quiet``: nothing is said of states that no callback takes."""
        self.all, self._trainer, self._module, self._quiet = callbacks, trainer, module, quiet

    def use(self, callbacks: list[Callback]) -> None:
        self.all[:] = callbacks

    def begin_fit(self, run: str, *, resumes: bool) -> None:
        """Have those begin anew that served another run, or whose state a checkpoint holds."""
        for callback in self.all:
            if callback._fitted_in and (resumes or callback._fitted_in != run):
                callback.begin_anew(self._trainer)
            callback._fitted_in = run

    def states(self, gaps: Gaps) -> dict[str, Any]:
        """Return the state of each callback that has one, by its key."""
        found = {cb.state_key: gaps.optional(f"the state of {cb.state_key}", cb.state_dict) for cb in self.all}
        return {key: state for key, state in found.items() if state}

    def layout_state(self, contents: Contents, gaps: Gaps) -> dict[str, Any]:
        return {} if contents.weights_only else {"callbacks": self.states(gaps)}

    def complete(self, tree: dict[str, Any], contents: Contents, gaps: Gaps) -> None:
        """Call ``on_save_checkpoint``; a dict that it returns is the callback's state."""
        if contents.weights_only:
            return
        for callback in self.all:
            part = f"on_save_checkpoint of {callback.state_key}"
            gaps.optional(part, partial(self._save, callback, tree))

    def _save(self, callback: Callback, tree: dict[str, Any]) -> None:
        hook = callback_hook(self._trainer, self._module, callback, "on_save_checkpoint")
        returned = hook(tree) if hook is not None else None
        if isinstance(returned, dict):
            tree["callbacks"].setdefault(callback.state_key, returned)

    def restore(self, stage: Restore, saved: Saved) -> None:
        """Call the hooks that see the checkpoint; later give the states back."""
        if stage is Restore.MODULE:
            for callback in self.all:
                hook = callback_hook(self._trainer, self._module, callback, "on_load_checkpoint")
                if hook is not None:
                    hook(saved.tree)
            if saved.resumes:
                _go_on_from_trained_weights(saved)
        elif stage is Restore.CALLBACKS:
            self._restore_states(saved)

    def _restore_states(self, saved: Saved) -> None:
        states = saved.tree.get("callbacks") or {}
        keys = [cb.state_key if cb.state_key in states else type(cb).__qualname__ for cb in self.all]
        for callback, key in zip(self.all, keys, strict=True):
            # which files are kept, and with how much patience, is training's: test("best") leaves it as it is
            if (state := states.get(key)) and (saved.resumes or not callback.role):
                callback.load_state_dict(own_copy(state))
        unused = [key for key in states if key not in keys]
        if unused and saved.resumes and saved.rank == 0 and not self._quiet:
            mine = ", ".join(cb.state_key for cb in self.all) or "none"
            warn(
                f"{saved.path} holds the state of {', '.join(map(str, unused))}, and this Trainer has no such "
                "callback: it is not used, and not in the checkpoints from here on. Give the Trainer the callbacks of "
                f"the run that is resumed, with the same arguments; it has {mine}.",
                code="LT606",
            )


def _go_on_from_trained_weights(saved: Saved) -> None:
    """Take the weights that were trained where a file holds averages in their place, and no callback has taken them."""
    trained = saved.tree.get("current_model_state")  # Lightning's key too
    if not isinstance(trained, dict) or saved.tree.get("state_dict") is trained:
        return
    saved.tree["state_dict"] = trained
    if saved.rank == 0:
        warn(
            f"{saved.path} holds averaged weights, and this Trainer has no callback that goes on with the "
            "average. Training goes on from the weights that were trained; the average is dropped. To go on with it, "
            "give the Trainer the callback of the run that is resumed (WeightAveraging, EMAWeightAveraging).",
            code="LT626",
        )
