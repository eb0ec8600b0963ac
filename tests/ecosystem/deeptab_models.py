"""An MLP classifier and a regressor with early stopping and best checkpoint, by their sklearn interface."""

# requires: deeptab==2.1.0
# domain: tabular
# compat: --pickle

import numpy as np
import pandas as pd
import torch
from deeptab.configs import MLPConfig, ResNetConfig, TrainerConfig
from deeptab.models import MLPClassifier, ResNetRegressor

if __name__ == "__main__":
    print("START")
    torch.manual_seed(0)
    draw = np.random.RandomState(0)
    frame = pd.DataFrame({"a": draw.randn(200), "b": draw.randn(200), "c": draw.choice(list("xyz"), 200)})
    target = frame.a + (frame.c == "x")
    quiet = {"accelerator": "cpu", "enable_progress_bar": False}
    trainer = TrainerConfig(max_epochs=4, batch_size=32, patience=2)
    classifier = MLPClassifier(model_config=MLPConfig(layer_sizes=[16, 8]), trainer_config=trainer, random_state=1)
    classifier.fit(frame, (target > 0).astype(int), **quiet)
    print("RESULT", classifier.predict_proba(frame[:3]).flatten().tolist())
    regressor = ResNetRegressor(model_config=ResNetConfig(), trainer_config=trainer, random_state=1)
    regressor.fit(frame, target, **quiet)
    print("RESULT", np.asarray(regressor.predict(frame[:3])).flatten().tolist())
