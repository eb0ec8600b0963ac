"""NHITS with early stopping, and LSTM, of neuralforecast: fit, predict, save, load, predict again."""

# requires: neuralforecast==3.3.0
# domain: forecasting

import numpy as np
import pandas as pd
from neuralforecast import NeuralForecast
from neuralforecast.models import LSTM, NHITS

if __name__ == "__main__":
    print("START")
    wave = np.sin(np.arange(300) / 8) + 0.1 * np.random.RandomState(0).randn(300)
    days = pd.date_range("2020-01-01", periods=300, freq="D")
    frame = pd.DataFrame({"unique_id": "a", "ds": days, "y": wave})
    options = {"enable_progress_bar": False, "enable_model_summary": False, "accelerator": "cpu"}
    stopping = {"max_steps": 30, "val_check_steps": 10, "early_stop_patience_steps": 2}
    models = [NHITS(h=12, input_size=24, **stopping, **options), LSTM(h=12, input_size=24, max_steps=20, **options)]
    forecast = NeuralForecast(models, freq="D")
    forecast.fit(frame, val_size=24)
    said = forecast.predict()
    truth = np.sin(np.arange(300, 312) / 8)
    print("RESULT", float(np.abs(said.NHITS - truth).mean()), float(np.abs(said.LSTM - truth).mean()))
    forecast.save("saved", overwrite=True)
    print("RESULT", np.allclose(NeuralForecast.load("saved").predict().NHITS, said.NHITS))
