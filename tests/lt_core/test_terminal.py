import io
import sys
import time
from pathlib import Path

import pytest
from tests import processes

from lt_core.errors import LtWarning, recording
from lt_core.terminal import LossyStream, say, short_path, waiting


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


class Refusing(io.StringIO):
    """A stream that takes nothing, as a pipe that nobody reads or a full disk."""

    def write(self, text=""):
        raise OSError(28, "No space left on device")

    flush = write


def test_what_cannot_be_written_is_lost_and_nothing_is_raised(monkeypatch):
    for stream in (Refusing(), None, closed()):
        monkeypatch.setattr(sys, "stdout", stream)
        say("lost")
        assert not LossyStream(stream).isatty()


def closed():
    stream = io.StringIO()
    stream.close()
    return stream


def test_letters_that_a_stream_lacks_are_escapes(monkeypatch):
    written = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(written, encoding="ascii"))
    say("läuft", 3, sep="-")
    assert written.getvalue() == b"l\\xe4uft-3\n"


def test_a_file_of_the_callers_own_is_not_guarded():
    with pytest.raises(OSError, match="No space"):
        say("not lost in silence", file=Refusing())


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_process_that_said_something_to_a_full_disk_exits_well_and_a_users_own_print_does_not():
    command = [sys.executable, "-c", "from lt_core.terminal import say; say('a')"]
    with Path("/dev/full").open("w") as full:
        assert processes.run(command, stdout=full, check=False).returncode == 0
        assert processes.run([*command[:2], "print('a')"], stdout=full, stderr=full, check=False).returncode


def test_a_folder_that_is_gone_leaves_paths_as_they_are(monkeypatch, tmp_path):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    assert short_path("/elsewhere/a.ckpt") == "/elsewhere/a.ckpt"


def test_a_file_that_only_informs_warns_where_it_cannot_be_written():
    with pytest.warns(LtWarning, match=r"The report could not be written.*\[LT236\]"), recording("The report"):
        raise OSError(28, "No space left on device")
