"""The scripts of docs/how-to/multi-node.md train here as they stand, as far as one machine goes."""

import os
import re
import sys
from pathlib import Path

import pytest
import torch
from tests import warm
from tests.patience import PATIENCE

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "multi-node.md"
OTHERS = ("TORCHELASTIC_", "SLURM_", "OMPI_", "PMI_", "LT_", "PYTEST_")
SRUN = """#!/bin/bash
shift
export SLURM_NTASKS=2 SLURM_STEP_NUM_TASKS=2 SLURM_STEP_TASKS_PER_NODE=2 SLURM_NNODES=1 SLURM_NODEID=0 SLURM_STEP_ID=0
for task in 0 1; do
    SLURM_PROCID=$task SLURM_LOCALID=$task "$@" &
    tasks+=($!)
done
if [ -z "$SLURM_RESTART_COUNT" ]; then  # the time is over soon
    until [ -n "$(find . -name '*.ckpt')" ]; do sleep 0.05; done
    kill -TERM "${tasks[1]}" $(pgrep -P "${tasks[1]}")
fi
for task in "${tasks[@]}"; do wait "$task" || status=$?; done
exit "${status:-0}"
"""


@pytest.fixture
def script(tmp_path):
    """The page's train.py, in a folder of its own."""
    (text,) = re.findall(r'```python title="train.py"\n(.*?)```', PAGE.read_text("utf-8"), flags=re.DOTALL)
    path = tmp_path / "train.py"
    path.write_text(text)
    return path


def run(command, folder, **variables):
    kept = {key: value for key, value in os.environ.items() if not key.startswith(OTHERS)}
    env = {**kept, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": "", **variables}
    return warm.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=PATIENCE, check=False)


def steps(folder):
    """Return the steps of the newest file that a run has left."""
    files = sorted(folder.glob("**/last*.ckpt"), key=lambda path: path.stat().st_mtime)
    return torch.load(files[-1], weights_only=True)["global_step"]


def slurm_script():
    (text,) = re.findall(r"```text\n(#!/bin/bash\n#SBATCH.*?)```", PAGE.read_text("utf-8"), flags=re.DOTALL)
    return text


def test_the_page_s_slurm_script_is_the_one_that_lt_slurm_writes():
    lt_slurm = pytest.importorskip("lt_slurm")
    job = lt_slurm.Job(command=["python", "train.py"], name="train", time="4:00:00", nodes=2, gpus=4, cpus=8)
    assert lt_slurm.batch_script(job) == slurm_script()


def test_the_page_on_preemption_requeues_as_this_script_does():
    (line,) = re.findall(r"scontrol requeue .*", slurm_script())
    assert f"[ $? -eq 143 ] && {line}\n" in PAGE.with_name("preemption.md").read_text("utf-8")


@pytest.mark.ddp
def test_the_page_s_script_trains_under_torchrun(script):
    script.write_text(script.read_text().replace("max_epochs=3", "max_epochs=1"))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(script)]
    done = run(command, script.parent)
    assert done.returncode == 0, done.stderr
    assert steps(script.parent) == 4096 // 16 // 2


@pytest.mark.ddp
@pytest.mark.slow
def test_its_slurm_script_stops_requeues_and_ends_the_training_by_a_stand_in_of_srun(script):
    script.write_text(script.read_text().replace("max_epochs=3", "max_epochs=30"))
    folder = script.parent
    for name, text in {"srun": SRUN, "scontrol": '#!/bin/bash\necho "$@" >>requeued\n'}.items():
        (folder / "bin").mkdir(exist_ok=True)
        (folder / "bin" / name).write_text(text)
        (folder / "bin" / name).chmod(0o755)
    path = os.pathsep.join((str(folder / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]))
    (folder / "job.sh").write_text(slurm_script())
    first = run(["bash", "job.sh"], folder, PATH=path, SLURM_JOB_ID="17")
    assert first.returncode == 143, first.stderr
    assert (folder / "requeued").read_text() == "requeue 17\n"
    assert 0 < steps(folder) < 30 * 4096 // 16 // 2
    second = run(["bash", "job.sh"], folder, PATH=path, SLURM_JOB_ID="17", SLURM_RESTART_COUNT="1")
    assert second.returncode == 0, second.stderr
    assert steps(folder) == 30 * 4096 // 16 // 2
