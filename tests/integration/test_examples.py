"""Every script of examples/ runs with its quickest settings and says what it shows."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.patience import PATIENCE

pytest.importorskip("sklearn")
pytest.importorskip("torchvision")

EXAMPLES = Path(__file__).parents[2] / "examples"

CASES = {
    "digits.py --max-epochs 1 --logger none": "Best checkpoint:",
    "autoencoder.py --max-epochs 1": "Linear classifier on its 16 features: test accuracy",
    "gan.py --max-epochs 1": "Two images by the generator, after 42 optimizer steps",
    "gan.py --max-epochs 1 --manual": "Two images by the generator, after 42 optimizer steps",
    "lbfgs.py": "10 optimizer steps called training_step",
    "transfer_learning.py --max-epochs 3 --batches 1": "Epoch 2 trains 11,181,642 parameters",
    "transfer_learning.py --max-epochs 2 --batches 1 --schedule backbone": "Epoch 1 trains 11,181,642 parameters",
    "dataloaders.py": "All three are equal: True",
    "argparse_trainer.py --max_epochs 1 --limit_train_batches 5 --hidden 16 16": "1 epochs, 5 steps: accuracy",
    "own_loop.py --max-epochs 1": "Trained on 1 rank(s): accuracy",
    "kfold.py --folds 2 --max-epochs 2": "2 folds: accuracy",
    "multi_node.py --max-epochs 2": "node 1, rank 1 of 2: 16 steps",
    "optuna_search.py --trials 2 --max-epochs 1": "Best: trial",
    "gpt.py --max-steps 10": "After 10 steps the loss on new sentences is",
}


def run(command, folder):
    """Run a script in an empty folder, where its logs and checkpoints go, and return what it printed."""
    script, *arguments = command.split()
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / script), *arguments],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("command", CASES)
def test_the_example_runs_and_says_what_it_shows(command, tmp_path):
    if command.startswith("optuna"):
        pytest.importorskip("optuna")
    assert CASES[command] in run(command, tmp_path)


@pytest.mark.slow
@pytest.mark.ddp
def test_the_own_loop_runs_on_two_ranks(tmp_path):
    assert "Trained on 2 rank(s): accuracy" in run("own_loop.py --max-epochs 1 --ranks 2", tmp_path)


def test_every_example_is_run_here():
    assert {path.name for path in EXAMPLES.glob("*.py")} == {command.split()[0] for command in CASES}
