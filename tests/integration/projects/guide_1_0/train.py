"""Train, keep the best, test: the script of the project."""

from argparse import ArgumentParser

import pytorch_lightning as pl
import torch
from callbacks import TellsWhatHappens
from digits_data import CloudsDataModule
from lit_classifier import LitClassifier
from lit_gan import GAN
from pytorch_lightning.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from pytorch_lightning.loggers import CSVLogger


def main():
    pl.seed_everything(1234)
    parser = ArgumentParser()
    parser.add_argument("--batch_size", default=16, type=int)
    parser.add_argument("--data_dir", default=".")
    parser.add_argument("--gan", action="store_true")
    parser = pl.Trainer.add_argparse_args(parser)
    parser = LitClassifier.add_model_specific_args(parser)
    args = parser.parse_args()

    dm = CloudsDataModule(args.data_dir, batch_size=args.batch_size)
    model = GAN() if args.gan else LitClassifier(args.hidden_dim, args.learning_rate)
    torch.save(model.state_dict(), f"{args.data_dir}/begin.pt")
    checkpoint = ModelCheckpoint(monitor=None if args.gan else "val_loss", filename="{epoch}", save_top_k=1)
    callbacks = [checkpoint, TellsWhatHappens(), LearningRateMonitor()]
    if not args.gan:
        callbacks.append(EarlyStopping("val_loss", patience=3))
    logger = CSVLogger(args.data_dir, name="logs")
    trainer = pl.Trainer.from_argparse_args(args, callbacks=callbacks, logger=logger)
    trainer.fit(model, dm)

    result = {"weights": model.state_dict(), "metrics": dict(trainer.callback_metrics)}
    if not args.gan:
        best = LitClassifier.load_from_checkpoint(checkpoint.best_model_path)
        result["best"] = best.state_dict()
        result["test"] = trainer.test(best, datamodule=dm)[0]
        result["epoch_means"] = model.epoch_means
    if trainer.is_global_zero:
        torch.save(result, f"{args.data_dir}/result.pt")


if __name__ == "__main__":
    main()
