"""The Trainer's arguments on the command line, in the way of 1.x: ``Trainer.add_argparse_args``.

Try ``uv run examples/argparse_trainer.py --max_epochs 3 --hidden 64 64``; old spellings such as ``--gpus 0`` are
understood too. Both methods print one deprecation note each: new projects take ``lt.cli.LightningCLI``.
"""

# nox: --max_epochs 1 --limit_train_batches 10

from __future__ import annotations

from argparse import ArgumentParser

from digits import DigitsData, LitDigits

import lt as pl


class LitDigitsWithFlags(LitDigits):
    """The classifier with flags of its own."""

    @staticmethod
    def add_model_specific_args(parent_parser: ArgumentParser) -> ArgumentParser:
        """Add the model's flags to a parser and return it."""
        group = parent_parser.add_argument_group("LitDigits")
        group.add_argument("--hidden", type=int, nargs=2, default=(128, 256), help="sizes of the hidden layers")
        group.add_argument("--learning_rate", type=float, default=1e-3)
        return parent_parser


def main() -> None:
    """Read the command line, train and test."""
    parser = ArgumentParser()
    parser.add_argument("--batch_size", type=int, default=32)
    parser = LitDigitsWithFlags.add_model_specific_args(parser)
    parser = pl.Trainer.add_argparse_args(parser)
    parser.set_defaults(max_epochs=5)
    args = parser.parse_args()

    pl.seed_everything(42)
    model = LitDigitsWithFlags(hidden=tuple(args.hidden), learning_rate=args.learning_rate)
    trainer = pl.Trainer.from_argparse_args(args, logger=False, enable_checkpointing=False)
    data = DigitsData(batch_size=args.batch_size)
    trainer.fit(model, datamodule=data)
    (metrics,) = trainer.test(model, datamodule=data, verbose=False)
    trainer.print(f"{trainer.current_epoch} epochs, {trainer.global_step} steps: accuracy {metrics['test_acc']:.1%}")


if __name__ == "__main__":
    main()
