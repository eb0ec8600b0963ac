"""The README's command line with its Gaussian configuration, shortened, on a small data set: DECI, MLflow, fit, test"""

# requires: causica==0.4.6
# domain: causality
# differs: a step that sets `should_stop` has a row on Lightning; of the parameters it adds two and drops empty lists

import json
import sys
from importlib.util import find_spec
from pathlib import Path

import mlflow
import numpy as np
import torch
import yaml
from causica.lightning.callbacks import MLFlowSaveConfigCallback
from causica.lightning.cli import LightningCLIWithDefaults
from causica.lightning.data_modules.deci_data_module import DECIDataModule
from causica.lightning.modules.deci_module import DECIModule

DATA = """
class_path: causica.lightning.data_modules.variable_spec_data.VariableSpecDataModule
init_args:
  root_path: csuite
  dataset_name: small
  batch_size: 32
  load_counterfactual: false
  load_interventional: true
"""


def samples(draws, count, first=None):
    first = draws.normal(size=count) if first is None else np.full(count, first)
    second = np.tanh(first) + 0.3 * draws.normal(size=count)
    third = first * second + 0.3 * draws.normal(size=count)
    return np.stack([first, second, third], axis=1)


def write_data(folder):
    draws = np.random.default_rng(0)
    folder.mkdir()
    variables = [
        {"group_name": f"x_{i}", "name": f"x_{i}", "type": "continuous", "lower": None, "upper": None} for i in range(3)
    ]
    (folder / "variables.json").write_text(json.dumps({"variables": variables}), "utf-8")
    np.savetxt(folder / "train.csv", samples(draws, 128), delimiter=",")
    np.savetxt(folder / "test.csv", samples(draws, 64), delimiter=",")
    np.savetxt(folder / "adj_matrix.csv", np.array([[0, 1, 1], [0, 0, 1], [0, 0, 0]]), fmt="%d", delimiter=",")
    environment = {
        "conditioning_idxs": None,
        "intervention_idxs": [0],
        "effect_idxs": [1, 2],
        "test_data": samples(draws, 16, 1.0).tolist(),
        "reference_data": samples(draws, 16, -1.0).tolist(),
    }
    told = {"metadata": {"columns_to_nodes": [0, 1, 2]}, "environments": [environment]}
    (folder / "interventions.json").write_text(json.dumps(told), "utf-8")


if __name__ == "__main__":
    write_data(Path("csuite"))
    (package,) = find_spec("causica").submodule_search_locations
    config = yaml.safe_load(Path(package, "config/lightning/default_gaussian.yaml").read_text("utf-8"))
    config["model"]["init_args"]["auglag_config"]["init_args"].update(max_inner_steps=20, max_outer_steps=3)
    config["trainer"]["max_epochs"] = 20
    Path("gaussian.yaml").write_text(yaml.safe_dump(config, sort_keys=False), "utf-8")
    Path("data.yaml").write_text(DATA, "utf-8")
    print("START")
    sys.argv[1:] = ["--config", "gaussian.yaml", "--data", "data.yaml"]
    cli = LightningCLIWithDefaults(
        DECIModule,
        DECIDataModule,
        run=False,
        save_config_callback=MLFlowSaveConfigCallback,
        subclass_mode_model=True,
        subclass_mode_data=True,
    )
    cli.trainer.fit(cli.model, datamodule=cli.datamodule, ckpt_path="last")
    print("RESULT", cli.trainer.current_epoch, cli.trainer.global_step)
    print("RESULT", sorted((name, value.item()) for name, value in cli.trainer.callback_metrics.items()))
    (tested,) = [dict(pair for part in cli.trainer.test(cli.model, datamodule=cli.datamodule) for pair in part.items())]
    print("RESULT", sorted(tested.items()))
    weights = sum(p.double().sum().item() for p in cli.model.parameters())
    print("RESULT", sorted(path.name for path in Path("outputs").iterdir()), weights)
    saved = torch.load("outputs/best_model.ckpt", weights_only=False)
    print("RESULT", saved["epoch"], saved["global_step"])
    client = mlflow.MlflowClient()
    run = client.get_run(cli.trainer.logger.run_id)
    print("RESULT", sorted(run.data.params.items()))
    for name in sorted(run.data.metrics):
        history = client.get_metric_history(run.info.run_id, name)
        print("RESULT", name, [(each.step, each.value) for each in history])
