"""The batch script of a training that SLURM may stop and start again."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from dataclasses import dataclass

from lt_core.errors import ConfigError

__all__ = ["Job", "batch_script"]

_TASK = 'trap : TERM; "$@" || exit $(($? == 143 ? 143 : 255))'
"""A process of the training; bash waits for it after SIGTERM, which both get."""

_DAYS = re.compile(r"^(?:(?P<days>\d+)-)?(?P<rest>\d+(?::\d+){0,2})$")


@dataclass(frozen=True, kw_only=True, slots=True)
class Job:
    """The request to SLURM.

    Attributes:
        command: the words of the training, run once for each process.
        name: of the job.
        time: the limit, as SLURM writes it: ``"4:00:00"``, ``"1-12:00:00"``, ``"90"`` (minutes).
        nodes: machines.
        gpus: on each node, with a process for each; 0: none.
        tasks: processes on each node; default: one for each GPU.
        cpus: cores of each process; 0 leaves it to the cluster.
        signal: seconds before the limit at which the training receives the signal to save and end.
        requeues: how often a job that was stopped is put into the queue again.
        output: where the log goes, in SLURM's pattern; it is appended to after a requeue.
        options: further options of sbatch, such as ``"--partition=a100"``.
        setup: lines of the shell before the training, such as ``"module load cuda"``.
    """

    command: Sequence[str]
    name: str
    time: str
    nodes: int = 1
    gpus: int = 0
    tasks: int | None = None
    cpus: int = 0
    signal: int = 120
    requeues: int = 100
    output: str = "slurm-%j.out"
    options: Sequence[str] = ()
    setup: Sequence[str] = ()


def batch_script(job: Job) -> str:
    """Return the script for sbatch.

    Each process gets SIGTERM before the time is over, upon which lt saves and ends with status 143; that puts the job
    into the queue again, where ``fit(ckpt_path="auto")`` goes on. Where one process fails, all end, and the job is not
    requeued.

    Raises:
        ConfigError: for a time that SLURM does not read, or one that is over before the signal.
    """
    seconds = _seconds(job.time)
    if not 0 < job.signal < seconds:
        raise ConfigError(
            f"--signal {job.signal}: expected seconds above 0 and below the time limit, which is {seconds} seconds.",
            code="LT683",
        )
    for option in job.options:
        if not option.startswith("--") or "\n" in option:
            raise ConfigError(
                f"--sbatch {option!r}: expected an option of sbatch, such as '--partition=a100'.", code="LT684"
            )
    tasks = job.tasks or max(1, job.gpus)
    directives = [
        f"--job-name={job.name}",
        f"--nodes={job.nodes}",
        f"--ntasks-per-node={tasks}",
        *([f"--gpus-per-node={job.gpus}"] if job.gpus else []),
        *([f"--cpus-per-task={job.cpus}"] if job.cpus else []),
        f"--time={job.time}",
        f"--signal=TERM@{job.signal}",
        "--requeue",
        f"--output={job.output}",
        "--open-mode=append",
        *job.options,
    ]
    cores = ["export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"] if job.cpus else []
    lines = [
        "#!/bin/bash",
        *(f"#SBATCH {directive}" for directive in directives),
        "",
        f"# The training says fit(ckpt_path='auto'); Trainer(num_nodes={job.nodes}, devices={tasks}) may be left out.",
        *job.setup,
        *cores,
        "# srun's status is the highest of its tasks': a failure must be above 143, which tasks have that it then ends",
        f"srun --kill-on-bad-exit=1 bash -c '{_TASK}' task {shlex.join(job.command)}",
        "status=$?",
        "",
        "# 143: it was stopped by SIGTERM, and has saved",
        f'if [ "$status" -eq 143 ] && [ "${{SLURM_RESTART_COUNT:-0}}" -lt {job.requeues} ]; then',
        "    # of an array this task alone",
        '    scontrol requeue "${SLURM_ARRAY_JOB_ID:+${SLURM_ARRAY_JOB_ID}_}${SLURM_ARRAY_TASK_ID:-$SLURM_JOB_ID}"',
        "fi",
        'exit "$status"',
    ]
    return "\n".join(lines) + "\n"


def _seconds(time: str) -> int:
    match = _DAYS.match(time)
    if match is None:
        raise ConfigError(
            f"--time {time!r}: expected SLURM's form: '4:00:00', '1-12:00:00', or minutes ('90').", code="LT682"
        )
    parts = [int(part) for part in match["rest"].split(":")]
    if match["days"] is not None:  # days-hours[:minutes[:seconds]]
        hours, minutes, seconds = [*parts, 0, 0][:3]
        return ((int(match["days"]) * 24 + hours) * 60 + minutes) * 60 + seconds
    if len(parts) == 3:
        return (parts[0] * 60 + parts[1]) * 60 + parts[2]
    return parts[0] * 60 + (parts[1] if len(parts) == 2 else 0)
