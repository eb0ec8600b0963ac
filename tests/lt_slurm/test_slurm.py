"""``lt slurm submit`` against stand-ins of sbatch, srun and scontrol; SLURM itself was run by hand."""

import os
import signal
import subprocess
import sys
import time

import pytest

from lt_slurm.command import main
from lt_slurm.script import Job, batch_script


def program(folder, name, text):
    path = folder / name
    path.write_text(f"#!/bin/bash\n{text}\n")
    path.chmod(0o755)


@pytest.fixture
def cluster(tmp_path, monkeypatch):
    """A folder with a script to train, and stand-ins that are found first."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "train.py").write_text("trainer.fit(model, ckpt_path='auto')\n")
    program(tmp_path / "bin", "sbatch", "cat > submitted.sh; echo '17;cluster'")
    program(tmp_path / "bin", "scontrol", 'echo "$@" >> requeued')
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.chdir(tmp_path)
    return tmp_path


SUBMIT = ("submit", "train.py", "--time", "4:00:00")


def test_the_script_asks_for_machines_signal_and_requeue(cluster, capsys):
    assert main([*SUBMIT, "--nodes", "2", "--gpus", "8", "--cpus", "6", "--sbatch=--qos=low", "--", "--lr", "a b"]) == 0
    assert capsys.readouterr().out == "Submitted job 17; its log: slurm-17.out\n"
    lines = (cluster / "submitted.sh").read_text().splitlines()
    wanted = "--nodes=2 --ntasks-per-node=8 --gpus-per-node=8 --cpus-per-task=6 --time=4:00:00 --signal=TERM@120"
    for option in [*wanted.split(), "--requeue", "--open-mode=append", "--job-name=train", "--qos=low"]:
        assert f"#SBATCH {option}" in lines
    (started,) = [line for line in lines if line.startswith("srun --kill-on-bad-exit=1 ")]
    assert started.endswith(f"' task {sys.executable} train.py --lr 'a b'")


@pytest.mark.parametrize(
    ("options", "asked", "told"),
    [
        ([], "slurm-%j.out", "slurm-17.out"),
        (["--sbatch=--array=0-9"], "slurm-%A_%a.out", "slurm-17_<task>.out"),
        (["--sbatch=--array=0-9", "--output=log/%a-%A.txt"], "log/%a-%A.txt", "log/<task>-17.txt"),
        (["--sbatch=--array=0-9", "--output=%j.txt"], "%j.txt", "%j.txt"),  # sbatch does not tell the tasks' numbers
        (["--output=%x.txt"], "%x.txt", "%x.txt"),
    ],
)
def test_the_log_that_is_told_is_the_one_that_is_written(cluster, capsys, options, asked, told):
    assert main([*SUBMIT, *options]) == 0
    assert capsys.readouterr().out == f"Submitted job 17; its log: {told}\n"
    assert f"#SBATCH --output={asked}\n" in (cluster / "submitted.sh").read_text()


def test_a_dry_run_prints_it_and_submits_nothing(cluster, capsys):
    assert main([*SUBMIT, "--dry-run", "--setup", "module load cuda"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("#!/bin/bash\n#SBATCH --job-name=train\n")
    assert printed.index("module load cuda") < printed.index("srun")
    assert not (cluster / "submitted.sh").exists()


@pytest.mark.parametrize(
    ("status", "restarts", "requeued"), [(143, None, True), (143, "3", False), (0, None, False), (1, None, False)]
)
def test_only_what_was_stopped_in_time_is_requeued_and_not_for_ever(cluster, status, restarts, requeued):
    program(cluster / "bin", "srun", f"exit {status}")
    text = batch_script(Job(command=["python", "train.py"], name="a", time="60", requeues=3))
    env = os.environ | {"SLURM_JOB_ID": "17"} | ({"SLURM_RESTART_COUNT": restarts} if restarts else {})
    assert subprocess.run(["bash", "-c", text], env=env, check=False).returncode == status
    assert (cluster / "requeued").exists() == requeued


@pytest.mark.parametrize(
    ("variables", "requeued"),
    [
        ({"SLURM_JOB_ID": "17"}, "17"),
        ({"SLURM_JOB_ID": "19", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "2"}, "17_2"),
        # the job of an array's last task has the number of the array, which stands for all tasks
        ({"SLURM_JOB_ID": "17", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "3"}, "17_3"),
        ({"SLURM_JOB_ID": "17", "SLURM_ARRAY_JOB_ID": "17", "SLURM_ARRAY_TASK_ID": "0"}, "17_0"),
    ],
)
def test_a_task_of_an_array_is_requeued_alone(cluster, variables, requeued):
    program(cluster / "bin", "srun", "exit 143")
    env = {name: value for name, value in os.environ.items() if not name.startswith("SLURM_")} | variables
    text = batch_script(Job(command=["python", "train.py"], name="a", time="60"))
    subprocess.run(["bash", "-uc", text], env=env, check=False)
    assert (cluster / "requeued").read_text() == f"requeue {requeued}\n"


def test_a_whole_command_goes_in_place_of_a_script(cluster, capsys):
    words = ["--", "lt", "fit", "--config", "run.yaml", "--ckpt_path", "auto"]
    assert main(["submit", "--time", "90", "--dry-run", *words]) == 0
    assert "' task lt fit --config run.yaml --ckpt_path auto\n" in capsys.readouterr().out


def test_a_script_that_would_begin_anew_is_named(cluster, capsys):
    (cluster / "train.py").write_text("trainer.fit(model)\n")
    main([*SUBMIT, "--dry-run"])
    assert "train.py names no ckpt_path" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (["submit", "train.py", "--time", "4h"], "'4:00:00'"),
        (["submit", "train.py", "--time", "1"], "below the time limit, which is 60 seconds"),
        (["submit", "none.py", "--time", "90"], "none.py is not there"),
        (["submit", "--time", "90"], "nothing to run"),
        (["submit", "train.py", "--time", "90", "--sbatch", "low"], "an option of sbatch"),
    ],
    ids=["time", "signal", "script", "nothing", "option"],
)
def test_what_cannot_be_submitted_is_said_before(cluster, capsys, words, says):
    assert main(words) == 2
    assert says in capsys.readouterr().err
    assert not (cluster / "submitted.sh").exists()


def test_what_sbatch_refuses_is_said(cluster, capsys):
    program(cluster / "bin", "sbatch", "echo 'Invalid account' >&2; exit 3")
    assert main(list(SUBMIT)) == 3
    assert "sbatch refused it: Invalid account" in capsys.readouterr().err


def test_where_there_is_no_sbatch_the_remedy_is_said(tmp_path, monkeypatch, capsys):
    (tmp_path / "train.py").write_text("ckpt_path")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(list(SUBMIT)) == 2
    assert "there is no sbatch here" in capsys.readouterr().err


def test_days_hours_and_minutes_are_slurms():
    for limit, seconds in (("1-12:00:00", 129600), ("2-0", 172800), ("90", 5400), ("10:30", 630), ("4:00:00", 14400)):
        text = batch_script(Job(command=["x"], name="a", time=limit, signal=seconds - 1))
        assert f"--time={limit}" in text


@pytest.mark.parametrize(
    ("ends", "status"),
    [("exit 0", 0), ("exit 143", 143), ("exit 1", 255), ("exit 2", 255), ("kill -KILL $$", 255), ("kill $$", 143)],
)
def test_a_task_that_fails_has_a_higher_status_than_those_that_slurm_then_ends(ends, status):
    """srun's status is the highest, and 143 queues the job again."""
    text = batch_script(Job(command=["bash", "-c", ends], name="a", time="5"))
    (line,) = [line for line in text.splitlines() if line.startswith("srun")]
    command = line.replace("srun --kill-on-bad-exit=1 ", "")
    assert subprocess.run(["bash", "-c", command], check=False).returncode == status


def test_a_task_waits_for_its_training_when_both_get_the_signal(tmp_path):
    script = "trap 'sleep 0.3; echo saved >saved; exit 143' TERM; echo >ready; while :; do sleep 0.05; done"
    text = batch_script(Job(command=["bash", "-c", script], name="a", time="5"))
    (line,) = [line for line in text.splitlines() if line.startswith("srun")]
    command = line.replace("srun --kill-on-bad-exit=1 ", "exec ")
    task = subprocess.Popen(["bash", "-c", command], cwd=tmp_path, start_new_session=True)
    while not (tmp_path / "ready").exists():
        time.sleep(0.01)
    os.killpg(task.pid, signal.SIGTERM)
    assert task.wait() == 143
    assert (tmp_path / "saved").exists()
