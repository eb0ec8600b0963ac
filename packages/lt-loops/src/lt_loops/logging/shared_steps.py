"""Step values with ``sync_dist=True``, as hooks after each batch find them: the ranks' common ones."""

from typing import Any

import torch

from lt_core.ranks import Ranks
from lt_loops.logging.recorder import RunRecorder
from lt_loops.logging.slot import Key, accumulation_dtype


class SharedSteps:
    """Called before the hooks after a batch: publishes the ranks' common values, by one exchange of tensors.

    Nothing is read back from a device. Ranks compare which names they log at the start of each epoch and ever more
    rarely within it (after 1, 2, 4, 8... batches), so that none waits for one that logs nothing.
    """

    def __init__(self, recorder: RunRecorder, ranks: Ranks) -> None:
        self._recorder, self._ranks = recorder, ranks
        self._keys: list[Key] = []
        self._batches = 0

    def __call__(self, outputs: Any, batch: Any, batch_idx: int) -> None:
        """Publish the values of this batch."""
        self._batches += 1
        if batch_idx == 0 or self._batches & (self._batches - 1) == 0:
            self._compare()
        if self._keys:
            self._exchange()

    def _compare(self) -> None:
        """Take in the names that all ranks have logged; a shared name stays shared."""
        everyone = self._ranks.gather_objects([list(key) for key in self._recorder.synced_steps()])
        in_all = set.intersection(*({Key(*key) for key in one} for one in everyone))
        self._keys = sorted(in_all.union(self._keys), key=str)  # ranks may have logged them in another order

    def _exchange(self) -> None:
        device, slots = self._ranks.device, self._recorder.synced_steps()
        wide = accumulation_dtype(device)
        # a rank without a sample left in this step has a stand-in's batch, and its values do not count
        mine = {} if self._recorder.slots is None else slots
        values = [torch.as_tensor(mine[key].last_value() if key in mine else 0.0) for key in self._keys]
        present = torch.tensor([float(key in mine) for key in self._keys], dtype=wide).to(device, non_blocking=True)
        stacked = torch.stack([value.to(device, wide, non_blocking=True).reshape(()) for value in values])
        everyone = self._ranks.all_gather(torch.stack([stacked, present]))  # (ranks, 2, keys)
        for column, key in enumerate(self._keys):
            if key in slots:
                value = slots[key].reduce_column(everyone[:, 0, column], everyone[:, 1, column])
                self._recorder.publish_step(slots[key], value)
