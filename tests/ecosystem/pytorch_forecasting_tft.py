"""Temporal Fusion Transformer: fit with validation, monitors and early stopping, best checkpoint, predict."""

# requires: pytorch-forecasting==1.8.0
# domain: forecasting
# compat: --pickle

import lightning.pytorch as pl
import numpy as np
import pandas as pd
from lightning.pytorch.callbacks import EarlyStopping, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from pytorch_forecasting import GroupNormalizer, TemporalFusionTransformer, TimeSeriesDataSet
from pytorch_forecasting.metrics import QuantileLoss

if __name__ == "__main__":
    print("START")
    pl.seed_everything(1)
    steps = np.tile(np.arange(60), 4)
    group = np.repeat(list("abcd"), 60)
    value = np.sin(steps / 5) + 0.1 * np.random.RandomState(0).randn(240) + np.repeat(np.arange(4), 60)
    frame = pd.DataFrame({"step": steps, "group": group, "value": value.astype("float32")})
    train = TimeSeriesDataSet(
        frame[frame.step < 50],
        time_idx="step",
        target="value",
        group_ids=["group"],
        max_encoder_length=16,
        max_prediction_length=5,
        static_categoricals=["group"],
        time_varying_known_reals=["step"],
        time_varying_unknown_reals=["value"],
        target_normalizer=GroupNormalizer(groups=["group"]),
        add_relative_time_idx=True,
    )
    val = TimeSeriesDataSet.from_dataset(train, frame, predict=True, stop_randomization=True)
    loaders = (train.to_dataloader(train=True, batch_size=16), val.to_dataloader(train=False, batch_size=16))
    model = TemporalFusionTransformer.from_dataset(
        train, learning_rate=0.02, hidden_size=8, attention_head_size=2, dropout=0.1, loss=QuantileLoss()
    )
    best = ModelCheckpoint(monitor="val_loss")
    stop = EarlyStopping("val_loss", patience=2, min_delta=1e-4)
    trainer = pl.Trainer(
        max_epochs=3,
        accelerator="cpu",
        gradient_clip_val=0.1,
        limit_train_batches=6,
        logger=CSVLogger("logs"),
        callbacks=[LearningRateMonitor(), stop, best],
        enable_progress_bar=False,
    )
    trainer.fit(model, *loaders)
    print("RESULT", float(best.best_model_score), stop.wait_count, trainer.global_step)
    loaded = TemporalFusionTransformer.load_from_checkpoint(best.best_model_path, weights_only=False)
    quiet = {"accelerator": "cpu", "logger": False, "enable_progress_bar": False}
    said = loaded.predict(loaders[1], mode="prediction", return_y=True, trainer_kwargs=quiet)
    print("RESULT", float((said.output - said.y[0]).abs().mean()))
