"""The quick start of TimeSeriesPredictor with its models on Lightning, chosen by a validation: leaderboard, load"""

# requires: autogluon-timeseries==1.6.3
# domain: forecasting

import numpy as np
import pandas as pd
from autogluon.timeseries import TimeSeriesDataFrame, TimeSeriesPredictor

if __name__ == "__main__":
    draws = np.random.default_rng(0)
    rows = [
        {"item_id": item, "timestamp": day, "target": 10 * number + np.sin(step / 3.5) + draws.normal(0, 0.1)}
        for number, item in enumerate(("H1", "H2", "H3"))
        for step, day in enumerate(pd.date_range("2026-01-01", periods=90, freq="D"))
    ]
    print("START")
    train_data = TimeSeriesDataFrame.from_data_frame(
        pd.DataFrame(rows), id_column="item_id", timestamp_column="timestamp"
    )
    predictor = TimeSeriesPredictor(
        prediction_length=7,
        path="autogluon-m4-hourly",
        target="target",
        eval_metric="MASE",
    )
    small = {"max_epochs": 3, "num_batches_per_epoch": 8, "batch_size": 16}
    predictor.fit(
        train_data,
        hyperparameters={"Naive": {}, "DeepAR": small, "PatchTST": small, "TemporalFusionTransformer": small},
        time_limit=600,
        random_seed=7,
    )
    board = predictor.leaderboard(train_data).sort_values("model")
    for name, test, val in zip(board["model"], board["score_test"], board["score_val"], strict=True):
        print("RESULT", name, test, val)
    print("RESULT", predictor.predict(train_data, random_seed=1).sum().tolist())
    loaded = TimeSeriesPredictor.load("autogluon-m4-hourly")
    print("RESULT", loaded.model_best, loaded.predict(train_data, model="DeepAR", random_seed=1).sum().tolist())
