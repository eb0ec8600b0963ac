"""What the examples of preference tuning compute, beside the papers' formulas by hand."""

import importlib
import math
import sys
from pathlib import Path

import pytest
import torch

import lt as pl
from lt.callbacks import ModelCheckpoint


@pytest.fixture(scope="module")
def dpo():
    yield from imported("dpo")


@pytest.fixture(scope="module")
def grpo():
    yield from imported("grpo")


def imported(name):
    folder = str(Path(__file__).parents[2] / "examples" / "text")
    sys.path.insert(0, folder)
    yield importlib.import_module(name)
    sys.path.remove(folder)
    for module in (name, "sft"):
        sys.modules.pop(module, None)


def test_the_loss_of_dpo_is_the_papers_formula(dpo):
    policy, reference = ([-1.0, -7.5, -3.0], [-2.0, -4.0, -3.0]), ([-1.5, -6.0, -3.0], [-1.0, -5.0, -3.0])
    expected = 0.0
    for chosen, rejected, chosen_before, rejected_before in zip(*policy, *reference, strict=True):
        reward, other = 0.3 * (chosen - chosen_before), 0.3 * (rejected - rejected_before)
        expected -= math.log(1 / (1 + math.exp(-(reward - other)))) / 3
    pairs = [tuple(map(torch.tensor, pair)) for pair in (policy, reference)]
    loss, margins = dpo.dpo_loss(*pairs, beta=0.3)
    assert loss.item() == pytest.approx(expected)
    assert margins.tolist() == pytest.approx([0.3 * 1.5, 0.3 * -2.5, 0.0])


def test_the_likelihood_of_an_answer_is_that_of_its_tokens_one_by_one(dpo):
    torch.manual_seed(0)
    net, rows = dpo.Decoder(dpo.NUMBERS, context=dpo.LENGTH), torch.randint(0, dpo.NUMBERS, (3, dpo.LENGTH))
    expected = torch.zeros(3)
    for place in range(dpo.PROMPT, dpo.LENGTH):
        expected += net(rows[:, :place])[:, -1].log_softmax(-1).gather(1, rows[:, place : place + 1])[:, 0]
    torch.testing.assert_close(dpo.answer_log_probs(net, rows), expected)


def test_the_reference_is_in_no_optimizer_and_no_checkpoint_and_a_resume_is_exact(dpo, tmp_path):
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}

    def fit(epochs, ckpt_path=None):
        torch.manual_seed(0)
        model = dpo.Preferring(dpo.Decoder(dpo.NUMBERS, width=16, depth=1, context=dpo.LENGTH))
        model.configure_optimizers = lambda: torch.optim.AdamW(model.policy.parameters(), lr=1e-3)
        keep = ModelCheckpoint(tmp_path / "kept", exclude="reference.*")
        trainer = pl.Trainer(max_epochs=epochs, callbacks=[keep], **quiet)
        trainer.fit(model, dpo.pairs(128), ckpt_path=ckpt_path)
        return model, trainer, keep.best_model_path

    _, first, path = fit(1)
    saved = torch.load(path, weights_only=True)
    assert all(name.startswith("policy.") for name in saved["state_dict"])
    assert first.callback_metrics["train_loss"] < math.log(2)
    resumed, _, _ = fit(2, path)
    whole, trainer, _ = fit(2)
    owned = {id(p) for group in trainer.optimizers[0].param_groups for p in group["params"]}
    assert owned == {id(p) for p in whole.policy.parameters()}
    assert not any(part.training for part in whole.reference.modules())
    assert all(map(torch.equal, whole.state_dict().values(), resumed.state_dict().values()))


def test_an_answer_counts_by_how_far_it_lies_above_its_group(grpo):
    rewards = torch.tensor([1.0, 2.0, 6.0, 5.0, 5.0, 5.0])
    deviation = math.sqrt((4 + 1 + 9) / 2)
    expected = [-2 / deviation, -1 / deviation, 3 / deviation, 0, 0, 0]
    assert grpo.group_advantages(rewards, group=3).tolist() == pytest.approx(expected, rel=1e-3)


def test_a_clipped_ratio_pays_no_more_and_has_no_gradient(grpo):
    ratios, gains = [1.0, 1.1, 1.5, 0.5, 1.5, 0.5], [2.0, 2.0, 2.0, 2.0, -2.0, -2.0]
    log_probs = torch.tensor(ratios).log()[:, None].requires_grad_()
    loss = grpo.clipped_loss(log_probs, torch.zeros(6, 1), torch.tensor(gains), clip=0.2)
    paid = [min(r * a, min(max(r, 0.8), 1.2) * a) for r, a in zip(ratios, gains, strict=True)]
    assert loss.item() == pytest.approx(-sum(paid) / 6)
    loss.backward()
    assert (log_probs.grad[:, 0] != 0).tolist() == [True, True, False, True, True, False]


def test_the_divergence_is_estimated_without_being_negative_and_draws_the_model_back(grpo):
    policy, reference = torch.tensor([0.6, 0.3, 0.1]).log(), torch.tensor([0.2, 0.3, 0.5]).log()
    each = torch.stack([grpo.divergence(policy[i : i + 1], reference[i : i + 1]) for i in range(3)])
    assert (each >= 0).all()
    exact = torch.distributions.kl_divergence(*map(torch.distributions.Categorical, (policy.exp(), reference.exp())))
    assert (policy.exp() * each).sum().item() == pytest.approx(exact.item())  # the mean over what the model draws
    moved = policy.clone().requires_grad_()
    grpo.divergence(moved, reference).backward()
    assert (moved.grad.sign() == (policy - reference).sign()).all()


def test_the_rule_counts_numbers_that_follow_and_needs_no_model(grpo):
    rewards = grpo.reward(torch.tensor([[6], [0]]), torch.tensor([[7, 0, 1, 5], [0, 0, 0, 0]]))
    assert rewards.tolist() == [0.75, 0.0]
