"""Names for the processes that test_progress.py starts on a pseudo-terminal; no tests."""

import logging
import sys
import time

from lt_callbacks import RichProgressBar, TQDMProgressBar
from lt_testing import FakeTrainer

__all__ = ["RichProgressBar", "TQDMProgressBar", "fit", "sys"]


def fit(bar, talk=False, interrupt=False):
    logging.basicConfig(level="INFO", format="%(message)s")
    trainer = FakeTrainer(max_epochs=2, num_training_batches=5, num_val_batches=[3])
    module = trainer.lightning_module
    bar.setup(trainer, module, "fit")
    try:
        bar.on_train_start(trainer, module)
        for epoch in range(2):
            trainer.current_epoch, trainer.batch_idx = epoch, 0
            trainer.progress_bar_metrics = {"loss": 0.5 / (epoch + 1)}
            bar.on_train_epoch_start(trainer, module)
            for i in range(5):
                if i == 3 and talk:
                    print(f"hello {epoch}")
                    logging.getLogger("user").info("log %d", epoch)
                if i == 3 and interrupt is True:
                    raise KeyboardInterrupt
                time.sleep(0.06)
                bar.on_train_batch_end(trainer, module, None, None, i)
            bar.on_validation_start(trainer, module)
            for i in range(3):
                time.sleep(0.06 if interrupt != "validation" else 0.2)
                bar.on_validation_batch_end(trainer, module, None, None, i)
                if i == 1 and interrupt == "validation":
                    return
            bar.on_validation_end(trainer, module)
            bar.on_train_epoch_end(trainer, module)
        bar.on_train_end(trainer, module)
    except BaseException as error:
        bar.on_exception(trainer, module, error)
        raise
    finally:
        bar.teardown(trainer, module, "fit")
