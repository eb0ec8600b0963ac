import pytest

from lt_cli.commands import plot
from lt_cli.commands.plot import _smoothed, panels_of
from lt_cli.main import main
from lt_cli.runs.metrics import RunMetrics


@pytest.fixture
def run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / "lightning_logs" / "version_0"
    folder.mkdir(parents=True)
    (folder / "metrics.csv").write_text("step,epoch,train_loss,val_loss,lr\n0,0,1,,0.1\n9,0,,0.5,\n10,1,0.5,,0.1\n")
    return folder


def test_metrics_of_one_kind_share_a_panel():
    names = ["train_loss_step", "train_loss_epoch", "val_loss/dataloader_idx_1", "val/loss", "lr", "epoch"]
    run = RunMetrics("run", None, {name: [] for name in names})
    assert panels_of([run]) == {"loss": names[:4], "lr": ["lr"]}


@pytest.mark.parametrize("name", ["curves.png", "curves.svg"])
def test_a_picture_is_drawn(run, name, capsys):
    pytest.importorskip("matplotlib")
    assert main(["plot", str(run), "--out", name, "--smooth", "0.5", "--x", "epoch"]) == 0
    head = (run.parents[1] / name).read_bytes()[:200]
    assert head.startswith(b"\x89PNG") if name.endswith("png") else b"<svg" in head or b"<?xml" in head
    assert "loss, lr" in capsys.readouterr().out


def test_without_a_name_the_newest_run_is_drawn(run):
    pytest.importorskip("matplotlib")
    assert main(["plot"]) == 0
    assert (run / "metrics.png").exists()


def test_a_run_of_single_values_after_it_is_passed_over(run):
    pytest.importorskip("matplotlib")
    later = run.parent / "version_1"
    later.mkdir()
    (later / "metrics.csv").write_text("step,test_loss\n10,0.4\n")
    assert main(["plot"]) == 0
    assert (run / "metrics.png").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--metrics", "los"], "Did you mean 'loss'?"),
        (["--x", "samples"], "There are: step"),
        (["--out", "curves.gif"], "LT167"),
    ],
)
def test_a_mistake_is_told(run, words, told, capsys):
    assert main(["plot", str(run), *words]) == 2
    assert told in capsys.readouterr().err


def test_a_weight_of_one_is_refused(run, capsys):
    with pytest.raises(SystemExit):
        main(["plot", str(run), "--smooth", "1"])
    assert "below 1" in capsys.readouterr().err


def test_a_running_mean_goes_on_behind_a_point_that_is_not_finite():
    assert [*_smoothed([1.0, float("inf"), 1.0], 0.5)] == [1.0, float("inf"), 1.0]


@pytest.mark.parametrize("text", ["\x1b]0;owned\x07", "\x9b2J", "\u202egnp", "\u200fx"])
def test_no_name_of_a_metric_commands_the_terminal(run, capfd, text):
    pytest.importorskip("matplotlib")
    (run / "metrics.csv").write_text(f"step,{text},lr\n0,1,1\n1,2,1\n", encoding="utf-8")
    assert main(["plot", str(run)]) == 0
    assert main(["plot", str(run), "--metrics", "missing"]) == 2
    printed = capfd.readouterr()
    assert (printed.out + printed.err).replace("\n", "").isprintable()
    assert text.encode("unicode_escape").decode() in printed.out


@pytest.mark.parametrize("name", ["metric_{}", "loss/dataloader_idx_{}"], ids=["panels", "one panel"])
def test_of_2_000_metrics_as_many_are_drawn_as_a_picture_holds(run, capsys, monkeypatch, name):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(plot, "_MOST_PANELS", 3)
    names = ",".join(name.format(number) for number in range(2_000))
    (run / "metrics.csv").write_text(f"step,{names}\n" + 2 * f"0{',1' * 2_000}\n")
    assert main(["plot", str(run)]) == 0
    printed = capsys.readouterr()
    assert "of 2000" in printed.err
    assert "--metrics" in printed.err
    assert len(printed.out) < 1000
    assert main(["plot", str(run), "--metrics", name.format(1_999)]) == 0
    assert capsys.readouterr().err == ""
    assert main(["plot", str(run), "--metrics", "missing"]) == 2
    assert len(capsys.readouterr().err) < 5000
