"""Batch indexing: which loaders it reads, and that its batches are the DataLoader's in every respect."""

from functools import partial

import pytest
import torch
from torch.utils.data import DataLoader, Subset, TensorDataset, default_collate

from lt_data.readers.rows import RowsReader, find_rows


def is_indexed(kit, loader):
    return isinstance(kit.make_feed(loader, stage="fit").reader, RowsReader)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(10),
        torch.rand(10, 2, 3).to(torch.bfloat16),
        torch.rand(10, 2) > 0.5,
        torch.rand(10, 4, dtype=torch.complex64),
        torch.rand(10, 0),
        torch.arange(10, dtype=torch.uint8),
    ],
    ids=lambda tensor: f"{str(tensor.dtype)[6:]} {tuple(tensor.shape)}",
)
def test_batches_have_values_types_shapes_and_strides_of_the_loaders(kit, tensor):
    loader = DataLoader(TensorDataset(tensor, tensor), batch_size=4)
    assert is_indexed(kit, loader)
    for mine, theirs in zip(kit.make_feed(loader, stage="fit"), loader, strict=True):
        assert type(mine) is type(theirs) is list
        for a, b in zip(mine, theirs, strict=True):
            assert torch.equal(a, b)
            assert (a.dtype, a.stride(), a.device, a.requires_grad) == (b.dtype, b.stride(), b.device, b.requires_grad)


def test_what_has_code_or_tensors_of_its_own_is_read_by_the_loader(kit):
    class Own(TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)

    x = torch.rand(8, 2)
    others = [
        DataLoader(Own(x), batch_size=2),
        DataLoader(TensorDataset(x), batch_size=2, collate_fn=partial(default_collate)),
        DataLoader(TensorDataset(x.clone().requires_grad_()), batch_size=2),
        DataLoader(TensorDataset(x.T.contiguous().T), batch_size=2),
        DataLoader(TensorDataset(torch.nn.Parameter(x)), batch_size=2),
        DataLoader(TensorDataset(x), batch_size=None),
        DataLoader(TensorDataset(x), batch_size=2, num_workers=1, worker_init_fn=print),
        DataLoader(Subset(Own(x), [1, 2]), batch_size=2),
    ]
    assert not any(is_indexed(kit, loader) for loader in others)


def test_a_batch_that_is_changed_in_place_leaves_the_data_alone(kit):
    data = torch.arange(6.0)
    for batch in kit.make_feed(DataLoader(TensorDataset(data), batch_size=2), stage="fit"):
        batch[0].zero_()
    assert data.tolist() == [0, 1, 2, 3, 4, 5]


def test_other_tensors_and_indices_count_from_the_next_epoch(kit):
    data = TensorDataset(torch.arange(4))
    part = Subset(data, [0, 1])
    feed = kit.make_feed(DataLoader(part, batch_size=2), stage="fit")
    assert [batch[0].tolist() for batch in feed] == [[0, 1]]
    data.tensors, part.indices = (torch.arange(10, 14),), [3, -4]
    assert [batch[0].tolist() for batch in feed] == [[13, 10]]


def test_the_global_generator_is_drawn_from_at_the_same_moments(kit):
    loader = DataLoader(kit.table(), batch_size=2, shuffle=True)
    kit.seed()
    iterator = iter(loader)
    after_iter = torch.rand(1)
    next(iterator)
    after_next = torch.rand(1)
    kit.seed()
    batches = iter(kit.make_feed(loader, stage="fit"))
    assert torch.equal(torch.rand(1), after_iter)
    next(batches)
    assert torch.equal(torch.rand(1), after_next)


def test_a_hugging_face_dataset_is_taken_by_columns():
    """Their class is known by its name; the real one was compared in all formats, see docs/data.md."""

    class Dataset:
        def __init__(self):
            self.format = {"type": "torch"}

        def __len__(self):
            return 3

        def __getitem__(self, keys):
            return {"x": torch.arange(6).reshape(3, 2)[keys], "y": [["a", "b", "c"][key] for key in keys]}

        def __getitems__(self, keys):
            columns = self[keys]
            return [{name: column[i] for name, column in columns.items()} for i in range(len(keys))]

    Dataset.__module__ = "datasets.arrow_dataset"
    loader = DataLoader(Dataset(), batch_size=2)
    rows = find_rows(loader)
    mine, theirs = rows.take(torch.tensor([0, 1])), next(iter(loader))
    assert list(mine) == list(theirs)
    assert torch.equal(mine["x"], theirs["x"])
    assert mine["y"] == theirs["y"]
    loader.dataset.format = {"type": "custom"}  # code of the user's
    assert find_rows(loader) is None


def test_a_default_collate_that_the_user_extended_is_used(kit, monkeypatch):
    from torch.utils.data._utils.collate import default_collate_fn_map

    monkeypatch.setitem(default_collate_fn_map, torch.Tensor, lambda batch, collate_fn_map: torch.stack(batch) + 100)
    loader = DataLoader(TensorDataset(torch.arange(4)), batch_size=2)
    assert [batch[0].tolist() for batch in kit.make_feed(loader, stage="fit")] == [[100, 101], [102, 103]]
