"""``self.log`` from a step that torch compiles."""

import pytest
import torch

from lt_core import LightningModule
from lt_loops.logging.recorder import RunRecorder


@pytest.mark.slow  # importing torch's compiler
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_all_settings_reach_the_recorder_from_compiled_code():
    class Net(LightningModule):
        def training_step(self, batch):
            loss = (batch * 2).sum()
            self.log("loss", loss, prog_bar=True, on_epoch=True, reduce_fx="max", sync_dist=True, batch_size=3)
            self.log("own", loss, add_dataloader_idx=False, rank_zero_only=True, logger=False)
            return loss

    module, recorder = Net(), RunRecorder()
    recorder.enter("train_batch", loader_idx=1)
    module.__dict__["_lt_recorder"] = recorder
    step = torch.compile(module.training_step, backend="eager")
    assert step(torch.ones(4)) == 8
    loss, own = recorder.slots["loss"], recorder.slots["own"]
    assert (loss.given.prog_bar, loss.forks, loss.reduce, loss.given.sync_dist) == (True, True, "max", True)
    assert loss.step_name == "loss_step/dataloader_idx_1"
    assert (own.step_name, own.to_logger) == ("own", False)


@pytest.mark.slow  # importing torch's compiler
def test_a_compiled_step_that_raises_leaves_nothing_of_what_it_logged():
    from lt_core.logging.compiled import log_from_the_graph
    from lt_loops.step.compiled import log_when_done

    recorder, given = RunRecorder(), (None,) * 9

    calls = []

    def step():
        if calls:
            return
        calls.append(1)
        log_from_the_graph(recorder, "loss", torch.tensor(1.0), given, None)
        raise ValueError("the user's")

    logging_step = log_when_done(step, recorder)
    with pytest.raises(ValueError, match="the user's"):
        logging_step()
    assert recorder.deferred is None
    logging_step()
    assert not recorder.slots
