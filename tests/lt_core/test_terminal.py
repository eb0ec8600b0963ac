import time
from pathlib import Path

from lt_core.terminal import short_path, waiting


def test_paths_below_the_working_directory_are_short(monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    assert short_path(tmp_path / "runs" / "a.ckpt") == str(Path("runs", "a.ckpt"))
    assert short_path("/elsewhere/a.ckpt") == "/elsewhere/a.ckpt"
    assert short_path("s3://bucket/a.ckpt") == "s3://bucket/a.ckpt"


def test_work_that_takes_long_says_what_it_is_and_how_long_it_took(capsys):
    with waiting("Digits.prepare_data()", after=0.0):
        while capsys.readouterr().out != "Waiting for Digits.prepare_data() ...\n":
            time.sleep(0.01)
    assert capsys.readouterr().out == "Digits.prepare_data() took 0 s.\n"


def test_quick_work_and_other_ranks_say_nothing(capsys):
    with waiting("a"), waiting("b", says=False, after=0.0):
        pass
    assert capsys.readouterr().out == ""
