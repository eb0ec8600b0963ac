"""Noise2Void on one noisy image: train with validation, predict, load from the checkpoint."""

# requires: careamics==0.0.4.2 setuptools<81
# domain: microscopy
# compat: --pickle

import numpy as np
from careamics import CAREamist
from careamics.config import create_n2v_configuration
from pytorch_lightning import seed_everything

if __name__ == "__main__":
    print("START")
    seed_everything(0)
    unseeded = np.random.default_rng  # from which careamics takes patches and pixels
    np.random.default_rng = lambda seed=None: unseeded(0)
    image = np.random.RandomState(0).rand(64, 64).astype("float32") + np.sin(np.arange(64) / 5).astype("float32")
    config = create_n2v_configuration(
        "dots", data_type="array", axes="YX", patch_size=[16, 16], batch_size=4, num_epochs=2, logger=None
    )
    careamist = CAREamist(source=config, work_dir="work")
    careamist.train(train_source=image, val_source=image)
    print("RESULT", float(careamist.trainer.callback_metrics["val_loss"]), careamist.trainer.global_step)
    said = np.asarray(careamist.predict(image, data_type="array", axes="YX", tile_size=(32, 32), tile_overlap=(8, 8)))
    print("RESULT", said.shape, float(said.astype("float64").sum()))
