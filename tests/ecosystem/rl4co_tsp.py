"""Travelling salesmen by reinforcement learning: attention model, REINFORCE with a rollout baseline, test."""

# requires: rl4co==0.7.0
# domain: reinforcement learning
# differs: it takes new loaders in each epoch, from the second on lt shuffles them as the loop by hand does

import torch
from lightning import seed_everything
from rl4co.envs import TSPEnv
from rl4co.models import AttentionModel
from rl4co.utils import RL4COTrainer

if __name__ == "__main__":
    print("START")
    seed_everything(0)
    env = TSPEnv(generator_params={"num_loc": 8})
    model = AttentionModel(
        env,
        baseline="rollout",
        batch_size=32,
        train_data_size=128,
        val_data_size=64,
        test_data_size=64,
        policy_kwargs={"embed_dim": 16, "num_encoder_layers": 1, "num_heads": 2},
        optimizer_kwargs={"lr": 1e-3},
    )
    trainer = RL4COTrainer(max_epochs=3, accelerator="cpu", precision="32-true", logger=None, enable_progress_bar=False)
    trainer.fit(model)
    print("RESULT", float(trainer.callback_metrics["val/reward"]))
    print("RESULT", float(sum(p.sum() for p in model.policy.parameters())))
    print("RESULT", trainer.test(model))
    torch.manual_seed(0)
    print("RESULT", model.policy(env.reset(batch_size=[4]), env, decode_type="greedy")["reward"].tolist())
