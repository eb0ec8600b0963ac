"""Two classifiers (CategoryEmbedding, GATE's kin FT-Transformer): fit, best model, evaluate, predict."""

# requires: pytorch-tabular==1.2.0 requests
# domain: tabular

import numpy as np
import pandas as pd
from pytorch_tabular import TabularModel
from pytorch_tabular.config import DataConfig, OptimizerConfig, TrainerConfig
from pytorch_tabular.models import CategoryEmbeddingModelConfig, FTTransformerConfig

if __name__ == "__main__":
    print("START")
    draw = np.random.RandomState(0)
    frame = pd.DataFrame({"a": draw.randn(240), "b": draw.randn(240), "c": draw.choice(list("xyz"), 240)})
    frame["y"] = ((frame.a + (frame.c == "x")) > 0).astype(int)
    for config in (
        CategoryEmbeddingModelConfig(task="classification", layers="16-8"),
        FTTransformerConfig(task="classification", num_heads=2, num_attn_blocks=1, input_embed_dim=8),
    ):
        model = TabularModel(
            data_config=DataConfig(target=["y"], continuous_cols=["a", "b"], categorical_cols=["c"]),
            model_config=config,
            optimizer_config=OptimizerConfig(),
            trainer_config=TrainerConfig(max_epochs=3, batch_size=32, accelerator="cpu", progress_bar="none", seed=1),
            verbose=False,
        )
        model.fit(train=frame[:160], validation=frame[160:200])
        print("RESULT", model.evaluate(frame[200:], verbose=False))
        print("RESULT", model.predict(frame[200:203]).iloc[:, 0].tolist())
