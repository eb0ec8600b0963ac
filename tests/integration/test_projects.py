"""Whole projects in the style of the guides of 1.0 and of 2.6: only their imports are changed, by this test.

The numbers are those of loops written by hand; two processes give those of one.
"""

import os
import re
import shutil
import sys
from pathlib import Path

import pytest
import torch
from tests import warm
from tests.patience import PATIENCE
from torch import nn
from torch.nn import functional as F

PROJECTS = Path(__file__).parent / "projects"
IMPORTS = (
    (r"\bpytorch_lightning\b", "lt"),
    (r"\blightning\.pytorch\b", "lt"),
    (r"\bimport lightning as\b", "import lt as"),
)


def ported(name, folder):
    """Copy a project with its imports changed, and nothing else; return its folder."""
    home = folder / name
    shutil.copytree(PROJECTS / name, home)
    for file in [*home.glob("*.py"), *home.glob("*.yaml")]:
        lines = file.read_text("utf-8").splitlines()
        for i, line in enumerate(lines):
            if re.match(r"\s*(import|from|- class_path:) ", line):
                for old, new in IMPORTS:
                    line = re.sub(old, new, line)
                lines[i] = line
        file.write_text("\n".join(lines) + "\n", "utf-8")
        assert not re.search(r"pytorch_lightning|lightning\.pytorch|import lightning\b", "".join(lines)), file
    return home


def run(home, *command):
    """Run one of the project's scripts as its user does; return what it says."""
    done = warm.run(
        [sys.executable, *command],
        cwd=home,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-6000:]
    return done.stdout + done.stderr


def load(file):
    return torch.load(file, map_location="cpu", weights_only=False)


def batches(home, size=16):
    points, labels = torch.load(home / "clouds.pt")
    return list(zip(points[:160].split(size), labels[:160].split(size), strict=True)), (points[200:], labels[200:])


def close(weights, others):
    assert weights.keys() == others.keys()
    for name, value in weights.items():
        torch.testing.assert_close(value, others[name], rtol=1e-4, atol=1e-6, msg=f"{name}: {{}}".format)


# ---- 1.0 -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def old_project(tmp_path_factory):
    """The project of 1.0 after a run on one process, and what that said."""
    home = ported("guide_1_0", tmp_path_factory.mktemp("old"))
    said = run(home, "train.py", "--gpus", "0", "--max_epochs", "4", "--progress_bar_refresh_rate", "0")
    return home, said


def test_a_project_of_1_0_trains_as_the_loop_by_hand(old_project):
    home, said = old_project
    begin, result = load(home / "begin.pt"), load(home / "result.pt")
    train, (points, labels) = batches(home)
    l1, l2 = nn.Linear(2, 16), nn.Linear(16, 3)
    model = nn.ModuleDict({"l1": l1, "l2": l2})
    model.load_state_dict(begin)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
    means = []
    for _ in range(4):
        losses = []
        for x, y in train:
            loss = F.cross_entropy(l2(torch.tanh(l1(x))), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        scheduler.step()
        means.append(sum(losses) / len(losses))
    assert all(torch.equal(result["weights"][name], value) for name, value in model.state_dict().items())
    assert result["epoch_means"] == pytest.approx(means)
    assert result["metrics"]["train_loss_epoch"].item() == pytest.approx(means[-1])
    best = nn.ModuleDict({"l1": nn.Linear(2, 16), "l2": nn.Linear(16, 3)})
    best.load_state_dict(result["best"])
    right = best["l2"](torch.tanh(best["l1"](points))).argmax(1) == labels
    assert result["test"]["test_acc"] == pytest.approx(right.float().mean().item())
    assert "seen: init_start, init_end, epoch_start, epoch_end with 10 outputs" in said
    assert "is a spelling of 1.x" in said


def test_its_gan_takes_turns_as_the_loop_by_hand(old_project):
    home, _ = old_project
    run(home, "train.py", "--gan", "--max_steps", "12", "--progress_bar_refresh_rate", "0", "--weights_summary", "full")
    begin, result = load(home / "begin.pt"), load(home / "result.pt")
    train, _ = batches(home)
    make = lambda out: nn.Sequential(nn.Linear(2, 8), nn.Tanh(), nn.Linear(8, out))  # noqa: E731
    model = nn.ModuleDict({"generator": make(2), "discriminator": make(1)})
    model.load_state_dict(begin)
    gen, disc = model["generator"], model["discriminator"]
    opt_g, opt_d = (torch.optim.Adam(part.parameters(), lr=0.01, betas=(0.5, 0.999)) for part in (gen, disc))
    bce = F.binary_cross_entropy_with_logits
    for x, _ in [*train, *train][:12]:
        real, fake = x.new_ones(len(x), 1), x.new_zeros(len(x), 1)
        opt_g.zero_grad()
        bce(disc(gen(x.flip(1))), real).backward()
        opt_g.step()
        opt_d.zero_grad()
        ((bce(disc(x), real) + bce(disc(gen(x.flip(1)).detach()), fake)) / 2).backward()
        opt_d.step()
    close(result["weights"], model.state_dict())


@pytest.mark.slow
@pytest.mark.ddp
def test_a_project_of_1_0_gives_on_two_processes_what_it_gives_on_one(tmp_path):
    home = ported("guide_1_0", tmp_path)
    arguments = ["--max_epochs", "3", "--progress_bar_refresh_rate", "0"]
    run(home, "train.py", *arguments, "--batch_size", "16")
    one = load(home / "result.pt")
    run(home, "train.py", *arguments, "--batch_size", "8", "--accelerator", "ddp_cpu", "--num_processes", "2")
    two = load(home / "result.pt")
    close(two["weights"], one["weights"])
    assert two["test"] == pytest.approx(one["test"])


# ---- 2.6 -------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def new_project(tmp_path_factory):
    """The project of 2.6 after a fit on one process."""
    home = ported("guide_2_6", tmp_path_factory.mktemp("new"))
    run(home, "main.py", "fit", "--config", "config.yaml", "--result", "result.pt")
    return home


def test_a_project_of_2_6_trains_as_the_loop_by_hand(new_project):
    home = new_project
    result = load(home / "result.pt")
    train, _ = batches(home)
    net = nn.ModuleDict({"net": nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))})
    net.load_state_dict(load(home / "result.pt.begin"))
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, weight_decay=0.01)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=0.1, total_steps=30)
    for x, y in train * 3:
        optimizer.zero_grad()
        F.cross_entropy(net["net"](x), y).backward()
        nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
    close(result["weights"], net.state_dict())
    assert result["batches"] == 30
    assert {"train/loss_epoch", "val/loss", "val/acc", "grad_2.0_norm_total"} <= result["metrics"].keys()


def test_it_tests_and_predicts_by_its_command_line(new_project):
    home = new_project
    best = load(home / "result.pt")["best"]
    assert "test/acc" in run(home, "main.py", "test", "--config", "config.yaml", "--ckpt_path", best)
    writer = ["--trainer.callbacks+=callbacks.Writer", "--trainer.callbacks.folder", str(home)]
    run(home, "main.py", "predict", "--config", "config.yaml", "--ckpt_path", best, *writer)
    predictions, (indices,) = load(home / "predictions-0.pt")
    net = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 3))
    weights = torch.load(best, weights_only=True)["state_dict"]
    net.load_state_dict({name.removeprefix("net."): value for name, value in weights.items()})
    _, (points, _) = batches(home)
    assert torch.equal(torch.cat(predictions), net(points).argmax(1))
    assert [n for part in indices for n in part] == list(range(40))


@pytest.mark.slow
@pytest.mark.ddp
def test_a_project_of_2_6_gives_on_two_processes_what_it_gives_on_one(new_project):
    home = new_project
    one = load(home / "result.pt")
    two_processes = ["--trainer.devices", "2", "--trainer.strategy", "ddp", "--data.batch_size", "8"]
    run(home, "main.py", "fit", "--config", "config.yaml", "--result", "two.pt", *two_processes)
    two = load(home / "two.pt")
    close(two["weights"], one["weights"])
    assert two["metrics"]["val/loss"].item() == pytest.approx(one["metrics"]["val/loss"].item(), rel=1e-4)
