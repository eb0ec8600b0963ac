import json

import pytest
import torch

from lt_cli.checkpoints.files import weights_of
from lt_cli.command import CommandError
from lt_cli.main import main
from lt_core.errors import LtWarning


@pytest.fixture
def checkpoint(tmp_path):
    layer = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(layer.parameters(), lr=0.5)
    layer(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    tree = {
        "epoch": 4,
        "global_step": 40,
        "pytorch-lightning_version": "2.5.0",
        "state_dict": {f"net.{name}": value for name, value in layer.state_dict().items()},
        "hyper_parameters": {"lr": 0.5},
        "optimizer_states": [optimizer.state_dict()],
        "callbacks": {"Stop": {"wait": 2}},
        "loops": {},
    }
    torch.save(tree, tmp_path / "last.ckpt")
    return tmp_path / "last.ckpt"


def test_what_a_checkpoint_holds_is_shown(checkpoint, capsys):
    assert main(["ckpt", "show", str(checkpoint), "--weights"]) == 0
    shown = capsys.readouterr().out
    for part in ("Lightning 2.5.0", "40", "lr: 0.5", "8 numbers", "learning rate 0.5", "net.weight: (2, 3) float32"):
        assert part in shown
    main(["ckpt", "show", str(checkpoint), "--json"])
    assert json.loads(capsys.readouterr().out)["callbacks"] == {"Stop": {"wait": 2}}


def test_verify_tells_good_from_bad(checkpoint, capsys):
    assert main(["ckpt", "verify", str(checkpoint.parent)]) == 0
    (checkpoint.parent / "cut.ckpt").write_bytes(checkpoint.read_bytes()[:-300])
    assert main(["ckpt", "verify", str(checkpoint.parent)]) == 1
    shown = capsys.readouterr().out
    assert "last.ckpt: complete" in shown
    assert "cut.ckpt is damaged" in shown


def test_a_file_that_would_run_code_is_refused(tmp_path, capsys):
    class Hostile:
        def __reduce__(self):
            return (open, (str(tmp_path / "hacked"), "w"))

    torch.save({"state_dict": Hostile()}, tmp_path / "bad.ckpt")
    for what in ("show", "verify"):
        assert main(["ckpt", what, str(tmp_path / "bad.ckpt")]) == 1
    assert main(["ckpt", "export", str(tmp_path / "bad.ckpt"), str(tmp_path / "w.pt")]) == 1
    assert not (tmp_path / "hacked").exists()


def test_a_file_of_ones_own_is_shown_and_exported_as_the_refusal_says(tmp_path, capsys):
    pytest.importorskip("lt_checkpoint", reason="torch itself reads a class of Python's own")
    path = tmp_path / "mine.ckpt"
    torch.save({"epoch": 3, "state_dict": {"weight": torch.ones(2)}, "more": complex}, path)
    assert main(["ckpt", "show", str(path)]) == 1
    assert "--trusted for lt ckpt" in capsys.readouterr().err
    with pytest.warns(LtWarning, match="may run any code"):
        assert main(["ckpt", "show", "--trusted", str(path)]) == 0
    with pytest.warns(LtWarning, match="may run any code"):
        assert main(["ckpt", "export", "--trusted", str(path), str(tmp_path / "w.pt")]) == 0
    assert "2 numbers" in capsys.readouterr().out


def test_converting_leaves_out_what_training_needs_and_changes_the_type(checkpoint):
    target = checkpoint.parent / "small.ckpt"
    assert main(["ckpt", "convert", str(checkpoint), str(target), "--weights-only", "--dtype", "bfloat16"]) == 0
    tree = torch.load(target, weights_only=True)
    assert "optimizer_states" not in tree
    assert tree["hyper_parameters"] == {"lr": 0.5}
    assert {value.dtype for value in tree["state_dict"].values()} == {torch.bfloat16}


def test_bare_weights_become_a_checkpoint(tmp_path):
    torch.save(torch.nn.Linear(2, 1).state_dict(), tmp_path / "bare.pt")
    assert main(["ckpt", "convert", str(tmp_path / "bare.pt"), str(tmp_path / "whole.ckpt")]) == 0
    assert set(torch.load(tmp_path / "whole.ckpt", weights_only=True)["state_dict"]) == {"weight", "bias"}


def test_weights_are_exported_as_a_state_dict(checkpoint):
    target = checkpoint.parent / "weights.pt"
    assert main(["ckpt", "export", str(checkpoint), str(target), "--prefix", "net."]) == 0
    torch.nn.Linear(3, 2).load_state_dict(torch.load(target, weights_only=True))


def test_weights_are_exported_as_safetensors(checkpoint):
    loaded = pytest.importorskip("safetensors.torch")
    target = checkpoint.parent / "weights.safetensors"
    assert main(["ckpt", "export", str(checkpoint), str(target), "--dtype", "float16"]) == 0
    weights = loaded.load_file(target)
    assert set(weights) == {"net.weight", "net.bias"}
    assert weights["net.bias"].dtype == torch.float16
    assert not list(checkpoint.parent.glob("*.tmp"))


def test_a_prefix_that_no_weight_has_is_told(checkpoint):
    with pytest.raises(CommandError, match=r"begin with: net\."):
        weights_of(torch.load(checkpoint, weights_only=True), "ent.")


@pytest.mark.parametrize("target", ["weights.bin", "weights"])
def test_other_endings_are_refused(checkpoint, target, capsys):
    assert main(["ckpt", "export", str(checkpoint), str(checkpoint.parent / target)]) == 2
    assert ".safetensors" in capsys.readouterr().err


def test_a_folder_that_is_no_checkpoint_is_told(tmp_path, capsys):
    (tmp_path / "empty.ckpt").mkdir()
    assert main(["ckpt", "verify", str(tmp_path / "empty.ckpt")]) == 1
    assert "is a folder" in capsys.readouterr().out


@pytest.mark.parametrize(
    "tree",
    [
        {"state_dict": None, "callbacks": [1], "optimizer_states": None, "lr_schedulers": None},
        {"hyper_parameters": torch.ones(3), "optimizer_states": [None], "left_out": 3},
    ],
)
def test_a_dict_that_is_no_checkpoint_is_shown_as_far_as_it_goes(tmp_path, tree, capsys):
    torch.save(tree, tmp_path / "other.ckpt")
    assert main(["ckpt", "show", str(tmp_path / "other.ckpt")]) == 0
    assert "neither lt nor Lightning" in capsys.readouterr().out
    assert main(["ckpt", "export", str(tmp_path / "other.ckpt"), str(tmp_path / "weights.pt")]) == (
        2 if "state_dict" in tree else 0
    )


def test_safetensors_are_shown_verified_and_converted(checkpoint, capsys):
    pytest.importorskip("safetensors")
    pytest.importorskip("lt_checkpoint")
    source, target = checkpoint.parent / "weights.safetensors", checkpoint.parent / "again.ckpt"
    assert main(["ckpt", "convert", str(checkpoint), str(source)]) == 0
    assert main(["ckpt", "verify", str(checkpoint.parent)]) == 0
    assert f"{source}: complete" in capsys.readouterr().out
    assert main(["ckpt", "show", str(source)]) == 0
    assert main(["ckpt", "convert", str(source), str(target)]) == 0
    saved, again = (torch.load(path, weights_only=True)["state_dict"] for path in (checkpoint, target))
    assert all(torch.equal(saved[name], again[name]) for name in saved)


HOSTILE = [
    "\x1b]0;owned\x07",
    "\x9b2J",
    "a\rb",
    "a\x7f",
    "\u202egnp",
    "\u2066x",
    "\u200fx",
    "\ud800x",
    "a\nresumes  exactly",
]
PLACES = {
    "a weight": lambda text: {"state_dict": {text: torch.ones(1)}},
    "a hyperparameter's name": lambda text: {"hyper_parameters": {text: 1}},
    "its value": lambda text: {"hyper_parameters": {"net": {"kind": text}}},
    "a callback's state": lambda text: {"callbacks": {text: {text: [text]}}},
    "a key of its own": lambda text: {text: 1},
    "the version": lambda text: {"pytorch-lightning_version": text},
    "the epoch": lambda text: {"epoch": text},
    "what was left out": lambda text: {"left_out": [text], "gaps": {text: text}},
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("text", HOSTILE)
def test_no_text_of_a_file_commands_the_terminal_or_adds_a_line(tmp_path, capsys, place, text):
    shown = []
    for given in (text, "plain"):
        torch.save(PLACES[place](given), tmp_path / "a.ckpt")
        assert main(["ckpt", "show", str(tmp_path / "a.ckpt"), "--weights"]) == 0
        shown.append(capsys.readouterr().out.splitlines())
        assert all(line.isprintable() for line in shown[-1])
    assert len(shown[0]) == len(shown[1])


def test_an_error_writes_out_control_characters_of_the_file(tmp_path, capsys):
    torch.save({"state_dict": {"\x1b[2Jnet.weight": torch.ones(1)}}, tmp_path / "a.ckpt")
    assert main(["ckpt", "export", str(tmp_path / "a.ckpt"), str(tmp_path / "a.pt"), "--prefix", "model."]) == 2
    assert r"\x1b[2Jnet." in capsys.readouterr().err
