"""Ratio estimation of the quickstart: a simulator, its own Trainer, early stopping, inference, coverage."""

# requires: swyft==0.4.3
# domain: simulation-based inference

import numpy as np
import swyft
from pytorch_lightning import seed_everything


class Simulator(swyft.Simulator):
    def __init__(self):
        super().__init__()
        self.transform_samples = swyft.to_numpy32

    def build(self, graph):
        z = graph.node("z", lambda: np.random.rand(2) * 2 - 1)
        graph.node("x", lambda z: z + np.random.randn(2) * 0.1, z)


class Network(swyft.SwyftModule):
    def __init__(self):
        super().__init__()
        self.logratios = swyft.LogRatioEstimator_1dim(num_features=2, num_params=2, varnames="z")

    def forward(self, A, B):
        return self.logratios(A["x"], B["z"])


if __name__ == "__main__":
    seed_everything(0)
    print("START")
    samples = Simulator().sample(400)
    data = swyft.SwyftDataModule(samples, batch_size=64, num_workers=0)
    trainer = swyft.SwyftTrainer(accelerator="cpu", max_epochs=4)
    network = Network()
    trainer.fit(network, data)
    for name, value in sorted(trainer.callback_metrics.items()):
        print("RESULT", name, value.item())
    print("RESULT", trainer.test(network, data))
    observed = swyft.Sample(x=np.array([0.3, -0.2], dtype=np.float32))
    prior = swyft.Samples(z=np.random.rand(200, 2).astype(np.float32) * 2 - 1)
    ratios = trainer.infer(network, observed, prior)
    print("RESULT", ratios.logratios.double().sum().item(), ratios.params.double().sum().item())
    coverage = trainer.test_coverage(network, samples[-20:], prior, batch_size=100)
    print("RESULT", coverage.prob_masses.double().sum().item())
