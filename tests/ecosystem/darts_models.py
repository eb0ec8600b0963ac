"""N-BEATS and TiDE of darts: fit with validation, predict, save and load."""

# requires: darts==0.48.1 setuptools<81
# domain: forecasting
# compat: --pickle

import numpy as np
from darts import TimeSeries
from darts.metrics import mae
from darts.models import NBEATSModel, TiDEModel

if __name__ == "__main__":
    print("START")
    wave = np.sin(np.arange(200) / 6) + 0.1 * np.random.RandomState(0).randn(200)
    series = TimeSeries.from_values(wave.astype("float32"))
    train, val = series[:160], series[136:]
    quiet = {"accelerator": "cpu", "enable_progress_bar": False, "enable_model_summary": False}
    shared = {"input_chunk_length": 24, "output_chunk_length": 6, "n_epochs": 3, "random_state": 4}
    for model in (
        NBEATSModel(num_stacks=2, num_blocks=1, layer_widths=16, pl_trainer_kwargs=quiet, **shared),
        TiDEModel(hidden_size=16, dropout=0.1, pl_trainer_kwargs=quiet, **shared),
    ):
        model.fit(train, val_series=val)
        said = model.predict(12)
        print("RESULT", float(mae(series[160:172], said)), said.values().flatten()[:3].tolist())
        model.save("model.pt")
        loaded = type(model).load("model.pt", pl_trainer_kwargs=quiet)
        print("RESULT", bool(np.allclose(loaded.predict(12).values(), said.values())))
