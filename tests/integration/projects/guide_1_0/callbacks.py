"""Callbacks of the project."""

from pytorch_lightning.callbacks import Callback
from pytorch_lightning.utilities.distributed import rank_zero_only


class TellsWhatHappens(Callback):
    def __init__(self):
        self.seen = []

    def on_init_start(self, trainer):
        self.seen.append("init_start")

    def on_init_end(self, trainer):
        self.seen.append("init_end")

    def on_epoch_start(self, trainer, pl_module):
        self.seen.append("epoch_start")

    def on_train_epoch_end(self, trainer, pl_module, outputs):
        self.seen.append(f"epoch_end with {len(outputs)} outputs")

    @rank_zero_only
    def on_train_end(self, trainer, pl_module):
        print("seen:", ", ".join(dict.fromkeys(self.seen)))
