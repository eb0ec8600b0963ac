"""On a CUDA device: copies on a side stream, one batch ahead, and still the batches and draws of the plain loop."""

import pytest
import torch
from torch.utils.data import DataLoader

from lt_core import Placement, Strategy, plugins

pytestmark = pytest.mark.cuda


def OnCuda():
    strategy = Strategy()
    strategy.place(Placement(accelerator=plugins.load("accelerators", "cuda")()))
    return strategy


@pytest.mark.parametrize("workers", [0, 2])
def test_batches_are_those_of_the_loader(kit, workers):
    def make(data):
        return DataLoader(data, batch_size=2, shuffle=True, num_workers=workers, pin_memory=True)

    for data in (kit.table(), kit.Noisy()):
        kit.seed()
        expected = [kit.step(batch) for batch in make(data)]
        kit.seed()
        feed = kit.make_feed(make(data), stage="fit", transfer=OnCuda().to_device)
        seen = []
        for batch in feed:
            first = batch[0] if isinstance(batch, list) else batch
            assert first.device.type == "cuda"
            seen.append(kit.step(batch))
        assert seen == expected


def test_a_batch_is_complete_when_it_is_read(kit):
    data = torch.utils.data.TensorDataset(torch.arange(64.0).repeat_interleave(1 << 16).reshape(64, -1))
    feed = kit.make_feed(DataLoader(data, batch_size=8), stage="fit", transfer=OnCuda().to_device)
    sums = [batch[0].sum(1) for batch in feed]  # the next copy is under way while this runs
    assert torch.cat(sums).tolist() == [float(n << 16) for n in range(64)]


def test_an_epoch_left_early_with_a_batch_ahead_resumes_exactly(kit):
    def make():
        loader = DataLoader(kit.Noisy(), 2, shuffle=True, num_workers=2, persistent_workers=True)
        return kit.make_feed(loader, stage="fit", transfer=OnCuda().to_device)

    kit.seed()
    feed, whole = make(), []
    for epoch in range(2):
        feed.set_epoch(epoch)
        for index, batch in enumerate(feed):
            whole.append(kit.flat(batch))
            if epoch == 0 and index == 2:
                break
    states = []
    kit.seed()
    feed = make()
    for epoch in range(2):
        feed.set_epoch(epoch)
        for index, _ in enumerate(feed):
            if epoch == 0 and index == 2:
                break
            if epoch == 1 and index == 1:
                states = [kit.saved(feed.state_dict()), kit.capture_generators()]
    resumed = make()
    resumed.load_state_dict(states[0])
    resumed.set_epoch(1)
    kit.restore_generators(states[1])
    assert [kit.flat(batch) for batch in resumed] == whole[5:]
