"""A job on a SLURM cluster that is stopped at its time limit, requeued, and goes on where it was: lt slurm submit.

``sbatch``, ``srun`` and ``scontrol`` are stand-ins here, small programs in a folder; SLURM itself was not run. On a
cluster it is the one command ``lt slurm submit train.py --time 4:00:00``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

TRAIN = """
import os, signal
import torch
import lt as pl

class Line(pl.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(1, 1)
    def training_step(self, batch, batch_idx):
        if self.global_step == 6 and "SLURM_RESTART_COUNT" not in os.environ:
            os.kill(os.getpid(), signal.SIGTERM)  # SLURM does so before the time is over
        return self.layer(batch).square().mean()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)

trainer = pl.Trainer(max_epochs=2, accelerator="cpu", default_root_dir="run", logger=False, enable_progress_bar=False)
trainer.fit(Line(), torch.utils.data.DataLoader(torch.randn(40, 1), batch_size=4), ckpt_path="auto")
print(f"Trained to step {trainer.global_step}, {trainer.stop_reason}")
"""

STAND_INS = {
    "sbatch": "cat > job.sh; echo 17",  # a cluster would wait for machines now
    "srun": 'shift; exec "$@"',  # without its option
    "scontrol": 'echo "$@" > requeued',
}


def main() -> None:
    """Submit, and be the cluster: run the job until it is not requeued any more."""
    Path("bin").mkdir()
    for name, text in STAND_INS.items():
        program = Path("bin", name)
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)
    Path("train.py").write_text(TRAIN)
    env = {**os.environ, "PATH": f"{Path('bin').resolve()}{os.pathsep}{os.environ['PATH']}"}
    lt = str(Path(sys.executable).with_name("lt"))
    submit = [lt, "slurm", "submit", "train.py", "--time", "4:00:00"]
    subprocess.run(submit, env=env, check=True)

    env |= {"SLURM_JOB_ID": "17"}
    for start in range(3):
        done = subprocess.run(["bash", "job.sh"], env=env, capture_output=True, text=True, check=False)
        said = [line for line in done.stdout.splitlines() if line.startswith(("Loaded", "Trained"))]
        print(f"Start {start}: exit code {done.returncode}; {'; '.join(said) or 'no word'}")
        requeued = Path("requeued")
        if not requeued.exists():
            break
        print(f"scontrol {requeued.read_text().strip()}")
        requeued.unlink()
        env["SLURM_RESTART_COUNT"] = str(start + 1)
    sys.exit(done.returncode)


if __name__ == "__main__":
    main()
