"""Every script and notebook of examples/ runs in an empty folder and says what it shows: `nox -s examples`.

A line `# nox: <arguments>` in a script gives quick settings; several lines are several runs. `# nox needs <modules>`
names what it imports beyond lt's own tests, from the group `examples`.

A script runs in a fork of a process that has imported torch: 1 s of processor time, not 6. `LT_FRESH=1 uv run nox -s
examples` starts a new Python for each, as a user does; kfold.py, notebooks, and all ranks always are new ones.
"""

import json
import os
import re
import signal
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest
from tests.patience import PATIENCE

# not by their import, which takes 3 s in each session that collects this file
pytestmark = pytest.mark.skipif(
    not (find_spec("sklearn") and find_spec("torchvision")), reason="needs scikit-learn and torchvision"
)

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
SCRIPTS = [path for path in sorted(EXAMPLES.glob("**/*.py")) if "plugins" not in path.parts]
SAYS = {
    "digits.py": "Best checkpoint:",
    "basics/argparse_trainer.py": "1 epochs, 10 steps: accuracy",
    "basics/dataloaders.py": "All three are equal: True",
    "basics/durations.py": "learning rate 0.025; validated at the steps [100, 200, 300]",
    "basics/export.py": "ONNX Runtime: the same outputs: True",
    "basics/loggers.py": "The lowest loss stands at step",
    "basics/low_precision.py": "8 bits end near bfloat16: True",
    "basics/micro_batches.py": "the same weights, but for rounding: True",
    "basics/multi_node.py": "node 1, rank 1 of 2: 16 steps",
    "basics/opentelemetry_metrics.py": "5 points of train/loss at the steps [9, 19, 29, 39, 49]",
    "basics/out_of_memory.py": "With accumulate_grad_batches='auto': 2 optimizer steps of 32 samples",
    "basics/own_events.py": "the learning rate was lowered: True",
    "basics/own_loop.py": "rank(s): accuracy",
    "basics/plain_module.py": "in the bare net:",
    "basics/preempted_validation.py": "without the signal: val_loss 0.173529",
    "basics/recompute.py": "The same names and weights, bit for bit: True",
    "basics/result.py": "The best learning rate is 0.3",
    "basics/schedule_free.py": "without a schedule: val_loss 0.",
    "basics/serving.py": "trained, of any number of images: serves:",
    "basics/slurm.py": "Trained to step 20, max_epochs=2 reached",
    "basics/uploads.py": "there: ['epoch=2-step=24.ckpt', 'epoch=3-step=32.ckpt', 'epoch=4-step=40.ckpt', 'last.ckpt']",
    "generative/autoencoder.py": "Linear classifier on its 16 features: test accuracy",
    "generative/diffusion.py": "Images of the digits 0 to 9",
    "generative/gan.py": "Two images by the generator, after 114 optimizer steps",
    "rl/actor_critic.py": "in the end (500 is the most)",
    "tabular/kfold.py": "5 folds: accuracy",
    "tabular/lbfgs.py": "10 optimizer steps called training_step",
    "tabular/optuna_search.py": "Best: trial",
    "text/dpo.py": "The reference is the model as it was: True",
    "text/gpt.py": "After 20 steps the loss on new sentences is",
    "text/gpt_parallel.py": "2 rank(s), 10 steps: loss",
    "text/gpt_pipeline.py": "rank(s), 10 steps: loss",
    "text/grpo.py": "Learned: True",
    "text/hub_push.py": "Read from there: the same logits: True",
    "text/huggingface.py": "transformers reads it again: the same logits: True",
    "text/large_vocabulary.py": "The same loss and gradients: True",
    "text/lora.py": "Adapters alone: ['adapter_config.json', 'adapter_model.safetensors']",
    "text/muon.py": "The loop by hand has the same weights, bit for bit: True",
    "text/qlora.py": "Resumed from them, the same adapters, bit for bit: True",
    "text/sft.py": "The same loss: True",
    "text/streams.py": "the same weights, bit for bit: True",
    "text/token_budget.py": "batches of so many texts: 47% padding",
    "vision/recipes.py": ": accuracy 0.",
    "vision/transfer_learning.py": "trains 11,181,642 parameters",
}


def commands():
    """Yield each script with its settings."""
    for script in SCRIPTS:
        settings = re.findall(r"^# nox:(.*)$", script.read_text("utf-8"), re.MULTILINE) or [""]
        yield from (f"{script.relative_to(EXAMPLES).as_posix()}{arguments}" for arguments in settings)


def run(folder, *command):
    """Run a command in an empty folder, where its logs and checkpoints go, and return what it printed."""
    done = subprocess.run(
        [sys.executable, *command],
        cwd=folder,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout


@pytest.fixture(scope="module")
def run_warm():
    """Return what runs a script as :func:`run` does, in a fork of a process that has imported torch, and not yet lt."""
    started = []

    def start():
        command = [sys.executable, str(Path(__file__).with_name("jobs") / "scripts.py")]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
        env = {**os.environ, "OMP_NUM_THREADS": "1"}
        return subprocess.Popen(command, env=env, start_new_session=True, **pipes)

    def run_warm(folder, *command):
        server = started.pop() if started else start()
        streams = [folder.with_name(f"{folder.name}.{name}") for name in ("out", "err")]
        try:
            order = {"command": command, "folder": str(folder), "streams": list(map(str, streams))}
            print(json.dumps(order), file=server.stdin, flush=True)
            status = server.stdout.readline()
            told, errors = (stream.read_text("utf-8") for stream in streams)
            assert status == "0\n", told[-2000:] + errors[-6000:]
        except BaseException:
            os.killpg(server.pid, signal.SIGKILL)
            server.communicate()
            raise
        started.append(server)
        return told

    yield run_warm
    for server in started:
        server.communicate()


@pytest.mark.slow
@pytest.mark.parametrize("command", list(commands()))
def test_the_example_runs_and_says_what_it_shows(command, tmp_path, run_warm):
    name, *arguments = command.split()
    for modules in re.findall(r"^# nox needs (.+)$", (EXAMPLES / name).read_text("utf-8"), re.MULTILINE):
        for module in modules.split(", "):
            pytest.importorskip(module)
    is_fresh = name == "tabular/kfold.py" or "LT_FRESH" in os.environ or not hasattr(os, "fork")
    run_script = run if is_fresh else run_warm
    told = run_script(tmp_path, str(EXAMPLES / name), *arguments)
    print(told)
    assert SAYS[name] in told


@pytest.mark.slow
def test_the_own_loop_runs_in_processes_of_torchrun_too(tmp_path):
    torchrun = ("-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2")
    own_loop = (str(EXAMPLES / "basics/own_loop.py"), "--ranks", "2", "--max-epochs", "1")
    by_torchrun, by_itself = run(tmp_path, *torchrun, *own_loop), run(tmp_path, *own_loop)
    assert "2 rank(s): accuracy" in by_itself
    for line in by_itself.splitlines():  # ranks share a pipe, so that a line's end may come after the next line
        assert line in by_torchrun


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None, reason="needs nbclient, from the group `examples`")
@pytest.mark.parametrize("name", [path.name for path in EXAMPLES.glob("*.ipynb")])
def test_the_notebook_runs(name, tmp_path):
    assert "cells" in run(tmp_path, str(ROOT / "tools" / "notebook.py"), str(EXAMPLES / name))


DRAWN = """
from lt_tuning.lr_finder import LearningRateCurve

curve = LearningRateCurve("exponential", 1e-6, 1, 30)
curve.results.update(lr=[curve.rate(i) for i in range(30)], loss=[1 / (i + 1) for i in range(30)])
"""
PICTURES = {  # cells, and how many pictures each leaves
    DRAWN: 0,
    "curve.plot()": 1,
    "curve.plot(suggest=True, show=True)": 1,
    "figure = curve.plot()": 1,
    "figure": 1,
    "figure = curve.plot()\nfigure.show()": 1,
    "curve.plot()\nNone": 1,
    "display(curve.plot())": 1,
    "import pickle; pickle.dumps(figure)[:0]": 0,
    "import matplotlib.pyplot as plt; axes = plt.subplots()[1]; curve.plot(ax=axes).axes[0].get_xscale()": 1,
}


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None, reason="needs nbclient, from the group `examples`")
def test_a_notebook_shows_the_curve_of_a_finder_once_a_cell(tmp_path):
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in PICTURES])
    nbclient.NotebookClient(notebook, timeout=PATIENCE, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [sum("image/png" in output.get("data", {}) for output in cell.outputs) for cell in notebook.cells]
    assert dict(zip(PICTURES, shown, strict=True)) == PICTURES


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None, reason="needs nbclient, from the group `examples`")
def test_an_executed_notebook_keeps_rows_and_curves_and_nothing_of_the_bar(tmp_path):
    nbformat = pytest.importorskip("nbformat")
    run(tmp_path, str(ROOT / "tools" / "notebook.py"), str(EXAMPLES / "notebook.ipynb"), "executed.ipynb")
    cells = nbformat.read(tmp_path / "executed.ipynb", as_version=4).cells
    outputs = [output for cell in cells for output in cell.get("outputs", ())]
    told = "".join(output.get("text", "") or output.get("data", {}).get("text/plain", "") for output in outputs)
    assert all(f"Epoch {epoch}/4" in told for epoch in range(5))
    assert "Output()" not in told
    assert sum("image/png" in output.get("data", {}) for output in outputs) == 1


def test_every_example_is_run_here_and_is_short():
    assert {path.relative_to(EXAMPLES).as_posix() for path in SCRIPTS} == set(SAYS)
    long = {path.name: len(path.read_text("utf-8").splitlines()) for path in SCRIPTS}
    assert {name: lines for name, lines in long.items() if lines > 150} == {}
