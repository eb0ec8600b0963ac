"""NeuralProphet with seasons and lags: fit with validation, forecast."""

# requires: neuralprophet==0.9.0
# domain: forecasting
# compat: --pickle

import numpy as np
import pandas as pd
from neuralprophet import NeuralProphet, set_random_seed

if __name__ == "__main__":
    print("START")
    set_random_seed(0)
    days = pd.date_range("2020-01-01", periods=200, freq="D")
    values = np.sin(np.arange(200) / 7) + 0.1 * np.random.RandomState(0).randn(200)
    frame = pd.DataFrame({"ds": days, "y": values})
    model = NeuralProphet(n_lags=7, n_forecasts=3, epochs=4, batch_size=16, learning_rate=0.05)
    metrics = model.fit(frame[:160], freq="D", validation_df=frame[150:], progress=None)
    print("RESULT", metrics.iloc[-1].to_dict())
    print("RESULT", model.predict(frame[150:])["yhat1"].tail(3).tolist())
