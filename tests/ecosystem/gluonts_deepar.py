"""DeepAR of gluonts: fit, best checkpoint, sample paths, its evaluator."""

# requires: gluonts[torch]==0.17.0
# domain: forecasting
# slice:

import lightning.pytorch as pl
import numpy as np
import pandas as pd
import torch
from gluonts.dataset.pandas import PandasDataset
from gluonts.evaluation import Evaluator, make_evaluation_predictions
from gluonts.torch import DeepAREstimator

if __name__ == "__main__":
    print("START")
    pl.seed_everything(3)
    wave = np.sin(np.arange(400) / 8) + 0.1 * np.random.RandomState(0).randn(400)
    frame = pd.DataFrame({"target": wave}, index=pd.period_range("2020-01-01", periods=400, freq="h"))
    data = PandasDataset(frame, target="target")
    options = {"max_epochs": 3, "accelerator": "cpu", "enable_progress_bar": False}
    estimator = DeepAREstimator(
        freq="h",
        prediction_length=12,
        num_layers=1,
        hidden_size=16,
        num_batches_per_epoch=20,
        trainer_kwargs=options,
    )
    predictor = estimator.train(data, cache_data=True)
    torch.manual_seed(0)
    forecasts, series = make_evaluation_predictions(data, predictor=predictor, num_samples=50)
    scores, _ = Evaluator(num_workers=0)(series, forecasts)
    print("RESULT", scores["MASE"], scores["mean_wQuantileLoss"])
