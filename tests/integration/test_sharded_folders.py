"""``lt ckpt`` and a sharded checkpoint, whatever its folder is called."""

import shutil
from pathlib import Path

import pytest
import torch

pytest.importorskip("lt_strategies")

from lt_cli.main import main

KEPT = Path(__file__).parent / "files_of_0_1" / "sharded.ckpt"


@pytest.fixture
def folder(tmp_path):
    return Path(shutil.copytree(KEPT, tmp_path / "runs" / "step-5"))


def damage(folder):
    shard = next(folder.glob("*.distcp"))
    content = bytearray(shard.read_bytes())
    content[len(content) // 2] ^= 1
    shard.write_bytes(content)


@pytest.mark.parametrize("above", [False, True])
def test_a_folder_without_the_ending_is_verified_as_one(above, folder, capsys):
    path = folder.parent if above else folder
    assert main(["ckpt", "verify", str(path)]) == 0
    assert f"{folder}: complete and undamaged" in capsys.readouterr().out
    damage(folder)
    assert main(["ckpt", "verify", str(path)]) == 1
    assert f"{folder} is damaged" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["rest.ckpt", ".metadata", "__0_0.distcp"])
def test_a_folder_that_lacks_a_file_is_not_passed(name, folder):
    (folder / name).unlink()
    assert main(["ckpt", "verify", str(folder)]) == 1


def test_converting_leaves_nothing_out(folder, tmp_path):
    assert main(["ckpt", "convert", str(folder), str(tmp_path / "one.ckpt")]) == 0
    tree = torch.load(tmp_path / "one.ckpt", weights_only=True)
    (state,) = tree["optimizer_states"]
    shapes = [value.shape for value in tree["state_dict"].values()]
    assert [entry["exp_avg"].shape for entry in state["state"].values()] == shapes
    assert {"callbacks", "loops", "lt"} <= set(tree)


@pytest.mark.filterwarnings("error")
def test_converting_to_weights_only_is_meant(folder, tmp_path):
    assert main(["ckpt", "convert", str(folder), str(tmp_path / "one.ckpt"), "--weights-only"]) == 0
