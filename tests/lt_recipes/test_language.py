"""Packed documents, losses in chunks and schedules by name, beside plain PyTorch."""

import math
import weakref

import pytest
import torch
from torch import nn
from torch.nn.functional import cross_entropy, scaled_dot_product_attention
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

from lt_core.errors import ConfigError
from lt_recipes import TokenBudget, chunked_cross_entropy, pack, packed_mask, schedule

LENGTHS = [5, 1, 9, 3, 12, 2]


class Decoder(nn.Module):
    """One layer of attention and places that are learned: enough to notice a wrong mask and a wrong position."""

    def __init__(self):
        super().__init__()
        self.tokens, self.places = nn.Embedding(20, 16), nn.Embedding(32, 16)
        self.qkv, self.out, self.head = nn.Linear(16, 48), nn.Linear(16, 16), nn.Linear(16, 20)

    def forward(self, input_ids, position_ids):
        x = self.tokens(input_ids) + self.places(position_ids)
        q, k, v = self.qkv(x).unflatten(2, (3, 2, 8)).permute(2, 0, 3, 1, 4)
        seen = scaled_dot_product_attention(q, k, v, attn_mask=packed_mask(position_ids))
        return self.head(x + self.out(seen.transpose(1, 2).flatten(2)))


def documents(make=torch.tensor):
    drawn = [torch.randint(0, 20, (length,)).tolist() for length in LENGTHS]
    hidden = [[token if place % 3 else -100 for place, token in enumerate(row)] for row in drawn]
    return [{"input_ids": make(row), "labels": make(labels)} for row, labels in zip(drawn, hidden, strict=True)]


def loss_of(model, batch):
    """Return the sum of the losses of next tokens, as models of transformers shift the labels."""
    scores = model(batch["input_ids"], batch["position_ids"])[:, :-1].flatten(0, 1)
    return cross_entropy(scores, batch["labels"][:, 1:].flatten(), reduction="sum")


@pytest.mark.parametrize("make", [torch.tensor, list], ids=["tensors", "lists"])
def test_packed_documents_have_the_losses_and_gradients_of_each_by_itself(make):
    torch.manual_seed(0)
    model, rows = Decoder().double(), documents(make)
    packed = loss_of(model, pack(rows))
    ours = torch.autograd.grad(packed, list(model.parameters()))
    alone = 0.0
    for row in rows:
        ids, labels = (torch.as_tensor(row[name])[None] for name in ("input_ids", "labels"))
        causal = {"input_ids": ids, "labels": labels, "position_ids": torch.arange(ids.shape[1])[None]}
        alone = alone + loss_of(model, causal)
    torch.testing.assert_close(packed, alone, rtol=1e-12, atol=0)
    torch.testing.assert_close(ours, torch.autograd.grad(alone, list(model.parameters())), rtol=1e-9, atol=1e-12)


def test_packing_without_care_gives_other_losses():  # or the test above would prove nothing
    torch.manual_seed(0)
    model, batch = Decoder().double(), pack(documents())
    right = loss_of(model, batch)
    one = batch | {"position_ids": torch.arange(sum(LENGTHS))[None]}
    assert abs(loss_of(model, one) - right) > 1e-3


def test_the_mask_is_causal_within_each_document_of_each_row():
    positions = torch.tensor([[0, 1, 2, 0, 1], [0, 0, 1, 2, 3]])
    mask = packed_mask(positions)
    assert mask.shape == (2, 1, 5, 5)
    blocks = torch.block_diag(torch.ones(3, 3).tril(), torch.ones(2, 2).tril()).bool()
    others = torch.block_diag(torch.ones(1, 1), torch.ones(4, 4).tril()).bool()
    assert torch.equal(mask[0, 0], blocks)
    assert torch.equal(mask[1, 0], others)


def test_each_token_is_a_label_where_documents_have_none_and_the_first_is_none_ever():
    batch = pack([{"input_ids": [4, 5, 6]}, {"input_ids": [7]}, {"input_ids": [8, 9]}])
    assert batch["labels"].tolist() == [[-100, 5, 6, -100, -100, 9]]
    assert batch["position_ids"].tolist() == [[0, 1, 2, 0, 0, 1]]
    assert batch["input_ids"].dtype == batch["labels"].dtype == torch.long


def test_the_labels_of_the_data_set_stay_as_they_are():
    given = documents()
    before = [row["labels"].clone() for row in given]
    pack(given)
    assert all(torch.equal(row["labels"], kept) for row, kept in zip(given, before, strict=True))


def test_a_loader_packs_up_to_a_number_of_tokens_without_padding():
    rows = documents()
    batches = TokenBudget(LENGTHS, max_tokens=14, padded=False)
    sizes = [
        batch["input_ids"].shape for batch in torch.utils.data.DataLoader(rows, batch_sampler=batches, collate_fn=pack)
    ]
    assert sum(tokens for _, tokens in sizes) == sum(LENGTHS)
    assert all(count == 1 and tokens <= 14 for count, tokens in sizes)


class LiveBytes(TorchDispatchMode):
    """Counts the bytes of the tensors that operators make while they live."""

    def __init__(self):
        super().__init__()
        self.now = self.peak = 0
        self.known = set()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        given = {id(leaf.untyped_storage()) for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)}
        for leaf in tree_leaves(made):
            if isinstance(leaf, torch.Tensor) and id(storage := leaf.untyped_storage()) not in self.known | given:
                self.known.add(id(storage))
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
                weakref.finalize(storage, self.gone, id(storage), storage.nbytes())
        return made

    def gone(self, number, size):
        self.known.discard(number)
        self.now -= size


@pytest.mark.parametrize("tokens", [1, 8, 50])
@pytest.mark.parametrize("chunk", [1, 7, 64])
@pytest.mark.parametrize("ignored", [0.0, 0.5])
def test_the_loss_in_chunks_is_the_whole_ones_with_its_gradients(tokens, chunk, ignored):
    torch.manual_seed(tokens)
    features, weight = torch.randn(2, tokens, 8, requires_grad=True), torch.randn(30, 8, requires_grad=True)
    targets = torch.randint(0, 30, (2, tokens)).masked_fill(torch.rand(2, tokens) < ignored, -100)
    targets[0, 0] = 3
    ours = chunked_cross_entropy(features, weight, targets, chunk=chunk)
    whole = cross_entropy((features @ weight.T).flatten(0, 1), targets.flatten())
    torch.testing.assert_close(ours, whole, rtol=1e-6, atol=1e-6)
    gradients = torch.autograd.grad(ours, [features, weight]), torch.autograd.grad(whole, [features, weight])
    torch.testing.assert_close(*gradients, rtol=1e-5, atol=1e-6)


def test_the_loss_in_chunks_of_float64_is_float64():
    features, weight = (torch.randn(rows, 8, dtype=torch.float64, requires_grad=True) for rows in (6, 30))
    ours, whole = (
        loss(features, weight)
        for loss in (
            lambda x, w: chunked_cross_entropy(x, w, torch.arange(6), chunk=4),
            lambda x, w: cross_entropy(x @ w.T, torch.arange(6)),
        )
    )
    torch.testing.assert_close(ours, whole, rtol=1e-12, atol=1e-12)
    gradients = torch.autograd.grad(ours, [features, weight]), torch.autograd.grad(whole, [features, weight])
    torch.testing.assert_close(*gradients, rtol=1e-12, atol=1e-12)


def test_the_loss_in_chunks_is_nan_where_no_target_counts_as_the_whole_one():
    nothing = chunked_cross_entropy(torch.ones(3, 2), torch.ones(5, 2), torch.full((3,), -100))
    assert math.isnan(nothing)


def test_the_logits_are_float32_under_autocast_and_the_loss_one_of_half_precision_products():
    features, weight = torch.randn(6, 8, requires_grad=True), torch.randn(30, 8, requires_grad=True)
    targets = torch.arange(6)
    with torch.autocast("cpu", torch.bfloat16):
        ours = chunked_cross_entropy(features, weight, targets, chunk=4)
        whole = cross_entropy(nn.functional.linear(features, weight).float(), targets)
    assert ours.dtype == torch.float32
    torch.testing.assert_close(ours, whole, rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(*(torch.autograd.grad(loss, weight) for loss in (ours, whole)), rtol=2e-2, atol=2e-3)


def test_the_loss_in_chunks_never_holds_all_logits():
    tokens, vocabulary = 512, 4000
    features, weight = torch.randn(tokens, 4, requires_grad=True), torch.randn(vocabulary, 4, requires_grad=True)
    targets = torch.arange(tokens)
    peaks = []
    for loss in (
        lambda: chunked_cross_entropy(features, weight, targets, chunk=32),
        lambda: cross_entropy(nn.functional.linear(features, weight).float(), targets),
    ):
        with LiveBytes() as live:
            loss().backward()
        peaks.append(live.peak)
    logits = tokens * vocabulary * 4
    assert peaks[0] < logits / 3
    assert peaks[1] >= 2 * logits


def rates(make, steps=20):
    optimizer = torch.optim.SGD(
        [{"params": [nn.Parameter(torch.ones(1))]}, {"params": [nn.Parameter(torch.ones(1))], "lr": 2.0}], lr=1.0
    )
    config = make(optimizer)
    assert config["interval"] == "step"
    found = []
    for _ in range(steps):
        found.append([group["lr"] for group in optimizer.param_groups])
        optimizer.step()
        config["scheduler"].step()
    return found


FORMULAS = {
    "constant": lambda step: 1.0,
    "linear": lambda step: (20 - step) / 16,
    "cosine": lambda step: 0.5 * (1 + math.cos(math.pi * (step - 4) / 16)),
    "warmup_stable_decay": lambda step: 1.0 if step <= 15 else (20 - step) / 5,
}


@pytest.mark.parametrize("warmup", [4, 0.2])
@pytest.mark.parametrize("lowest", [0, 0.1])
@pytest.mark.parametrize("name", FORMULAS)
def test_a_schedule_follows_its_formula_in_each_group(name, warmup, lowest):
    found = rates(lambda optimizer: schedule(optimizer, name, 20, warmup=warmup, decay=0.25, lowest=lowest))
    for step, (one, two) in enumerate(found):
        factor = step / 4 if step < 4 else lowest + (1 - lowest) * FORMULAS[name](step)
        assert one == pytest.approx(factor)
        assert two == pytest.approx(2 * factor)


@pytest.mark.parametrize("name", FORMULAS)
def test_a_schedule_holds_its_last_rate_beyond_the_end_and_takes_a_warm_up_of_the_whole_run(name):
    end = 1.0 if name == "constant" else 0.0
    assert rates(lambda optimizer: schedule(optimizer, name, 5), steps=9)[5:] == [[end, 2 * end]] * 4
    whole = rates(lambda optimizer: schedule(optimizer, name, 4, warmup=4), steps=4)
    assert [one for one, _ in whole] == [0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize(("name", "total"), [("cosin", 10), ("cosine", math.inf), ("constant", math.inf)])
def test_an_unknown_schedule_and_a_run_without_an_end_are_refused(name, total):
    optimizer = torch.optim.SGD([nn.Parameter(torch.ones(1))], lr=1.0)
    with pytest.raises(ConfigError, match="'constant', 'linear', 'cosine', 'warmup_stable_decay'.*LT805"):
        schedule(optimizer, name, total)
