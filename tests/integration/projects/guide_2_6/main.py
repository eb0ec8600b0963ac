"""``python main.py fit --config config.yaml``: the script of the project."""

import torch
from data import Clouds
from lightning.pytorch.cli import LightningArgumentParser, LightningCLI
from model import Classifier


class CLI(LightningCLI):
    def add_arguments_to_parser(self, parser: LightningArgumentParser) -> None:
        parser.add_argument("--result", default=None, type=str)
        parser.link_arguments("data.batch_size", "trainer.log_every_n_steps")

    def before_fit(self) -> None:
        if self.trainer.is_global_zero:
            torch.save(self.model.state_dict(), f"{self.config.fit.result}.begin")

    def after_fit(self) -> None:
        counter = next(callback for callback in self.trainer.callbacks if type(callback).__name__ == "Counter")
        if self.trainer.is_global_zero:
            torch.save(
                {
                    "weights": self.model.state_dict(),
                    "metrics": dict(self.trainer.callback_metrics),
                    "batches": counter.batches,
                    "best": self.trainer.checkpoint_callback.best_model_path,
                },
                self.config.fit.result,
            )


if __name__ == "__main__":
    CLI(Classifier, Clouds, seed_everything_default=7)
