"""A physics-informed network for a Poisson equation: train by its Trainer, test, the learned solution."""

# requires: pina-mathlab==0.3.2.post2610
# domain: physics
# compat: --pickle

import torch
from lightning.pytorch import seed_everything
from pina import Trainer
from pina.callback import MetricTracker
from pina.model import FeedForward
from pina.optim import TorchOptimizer
from pina.problem.zoo import Poisson2DSquareProblem
from pina.solver import PhysicsInformedSingleModelSolver

if __name__ == "__main__":
    print("START")
    seed_everything(0)
    problem = Poisson2DSquareProblem()
    problem.discretise_domain(40, "random")
    network = FeedForward(len(problem.input_variables), len(problem.output_variables), inner_size=12)
    solver = PhysicsInformedSingleModelSolver(problem, network, optimizer=TorchOptimizer(torch.optim.Adam, lr=0.01))
    tracker = MetricTracker()
    options = {"accelerator": "cpu", "enable_progress_bar": False, "batch_size": 10, "train_size": 0.8, "val_size": 0.2}
    trainer = Trainer(solver, max_epochs=4, callbacks=[tracker], **options)
    trainer.train()
    for name, values in sorted(tracker.metrics.items()):
        print("RESULT", name, [float(value) for value in values])
    print("RESULT", float(sum(p.sum() for p in solver.parameters())))
