"""lt-recipes and lt-huggingface mean the same rates by one name."""

import pytest
import torch

from lt_huggingface import TransformersModule
from lt_recipes import schedule


class OfTwentySteps:
    estimated_stepping_batches = 20


@pytest.mark.parametrize("name", ["constant", "linear", "cosine", "warmup_stable_decay"])
@pytest.mark.parametrize("warmup", [0, 0.25, 8])
def test_a_schedule_of_one_name_has_the_same_rates_in_both_packages(name, warmup):
    module = TransformersModule(torch.nn.Linear(1, 1), lr=0.3, warmup_steps=warmup, schedule=name)
    module.trainer = trainer = OfTwentySteps()
    theirs = module.configure_optimizers()["lr_scheduler"]["scheduler"].lr_lambdas[0]
    optimizer = torch.optim.SGD([torch.nn.Parameter(torch.ones(1))], lr=0.3)
    ours = schedule(optimizer, name, 20, warmup=warmup)["scheduler"].lr_lambdas[0]
    assert [ours(step) for step in range(trainer.estimated_stepping_batches + 3)] == pytest.approx(
        [theirs(step) for step in range(23)]
    )
