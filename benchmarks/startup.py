"""Row C: what lt adds to the start of a process, and to what is installed. Each turn is a process of its own."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import os
import re
import subprocess
import sys
import time
from pathlib import Path

from figure import Figure

BY_HAND = """
import torch
net = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
for batch in [torch.ones(2, 4)]:
    loss = net(batch).sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
"""
NET = """
import torch
import lt_core, lt_loops
class Net(lt_core.LightningModule):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(4, 1)
    def training_step(self, batch):
        return self.layer(batch).sum()
    def configure_optimizers(self):
        return torch.optim.SGD(self.parameters(), lr=0.1)
"""
BY_LT = f"""
{NET}
off = dict.fromkeys(("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"), False)
lt_loops.Trainer(accelerator="cpu", max_epochs=1, **off).fit(Net(), [torch.ones(2, 4)])
"""
IMPORT = """
import time, torch
begin, processor = time.perf_counter(), time.process_time()
import lt_core, lt_loops
print(time.perf_counter() - begin, time.process_time() - processor)
"""
WARM = f"""
import time
{BY_HAND}
begin = time.process_time()
{BY_LT}
print(time.process_time() - begin)
"""
FIXED = f"""
import os, sys, tempfile, time, warnings
warnings.simplefilter("ignore")
shown, sys.stdout, sys.stderr = sys.stdout, open(os.devnull, "w"), open(os.devnull, "w")
import lt as pl
{NET}
taken = []
with tempfile.TemporaryDirectory() as folder:
    for turn in range(12):
        begin = time.process_time()
        pl.Trainer(accelerator="cpu", max_epochs=1, default_root_dir=folder).fit(Net(), [torch.ones(2, 4)])
        taken.append(time.process_time() - begin)
print(1e3 * sorted(taken[2:])[5], file=shown)
"""
WITHOUT_NUMPY = "import sys; sys.modules['numpy'] = None\n" + BY_LT
SIZED = ("lt_core", "lt_loops")


def run(code: str) -> tuple[float, str]:
    """Run ``code`` in a process of its own; return the seconds from its start to its end, and what it printed."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    begin = time.perf_counter()
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", code], check=True, capture_output=True, text=True, env=env
    )
    return time.perf_counter() - begin, done.stdout


def megabytes() -> float:
    """Return the size of lt-core and lt-loops as installed, without compiled files."""
    total = 0
    for name in SIZED:
        spec = importlib.util.find_spec(name)
        assert spec is not None, name
        assert spec.origin is not None, name
        files = Path(spec.origin).parent.rglob("*")
        total += sum(f.stat().st_size for f in files if f.is_file() and "__pycache__" not in f.parts)
    return total / 1e6


def foreign_distributions() -> list[str]:
    """Return what lt-core and lt-loops need beside torch, typing-extensions and each other."""
    found = {
        re.split(r"[^\w-]", need, maxsplit=1)[0]
        for name in ("lt-core", "lt-loops")
        for need in importlib.metadata.requires(name) or []
        if "extra ==" not in need
    }
    return sorted(found - {"lt-core", "lt-loops", "torch", "typing-extensions"})


def startup_rows(rounds: int = 7) -> list[Figure]:
    """Return the lines of row C."""
    run(BY_HAND), run(WITHOUT_NUMPY)  # compiled files; and it must work without numpy
    what, imported = "process start to the end of a one-step fit", "import of lt_core and lt_loops after torch"
    fit = Figure("C", what, "s", 0.05)
    warm = Figure("C", "a one-step fit after one by hand, import of lt included: processor time", "s", 0.05, "plain")
    imports, processor = (Figure("C", imported + of, "s", 0.05, "plain") for of in ("", ": processor time"))
    for _ in range(rounds):
        fit.turn(run(BY_HAND)[0], run(BY_LT)[0])
        warm.turn(0.0, float(run(WARM)[1]))
        clock, cpu = run(IMPORT)[1].split()
        imports.turn(0.0, float(clock))
        processor.turn(0.0, float(cpu))
    fixed = Figure("C", "a one-step fit with all defaults, after others: processor time", "ms", 10, "plain")
    for _ in range(min(rounds, 3)):
        fixed.turn(0.0, float(run(FIXED)[1]))
    size = Figure("C", "lt-core and lt-loops, installed", "MB", 1.5, "plain")
    size.turn(0.0, megabytes())
    foreign = Figure("C", "distributions needed beside torch", "number", 0, "plain")
    foreign.turn(0.0, len(foreign_distributions()))
    return [fit, warm, imports, processor, fixed, size, foreign]
