"""A folder is prepared by one process, once, whoever comes first."""

import multiprocessing
import os
import time

import pytest
from tests.patience import PATIENCE

from lt_core.errors import DataError
from lt_recipes import prepare_once

FORK = multiprocessing.get_context("fork") if os.name == "posix" else multiprocessing.get_context()


def test_a_finished_folder_is_skipped_until_the_key_changes(tmp_path):
    needed = []
    for key in ("v1", "v1", "v2", "v2", "v1"):
        with prepare_once(tmp_path / "data", key) as need:
            needed.append(need)
    assert needed == [True, False, True, False, True]


def test_a_preparation_that_failed_is_not_marked(tmp_path):
    with pytest.raises(KeyError), prepare_once(tmp_path):
        raise KeyError
    with prepare_once(tmp_path) as need:
        assert need


def test_a_damaged_marker_counts_as_none(tmp_path):
    (tmp_path / ".lt-prepared.json").write_text("{")
    with prepare_once(tmp_path) as need:
        assert need


def _append(folder):
    with prepare_once(folder) as need, (folder / "log").open("a") as log:
        log.write("in ")
        log.flush()
        time.sleep(0.2)
        log.write("out ")
        if need:
            (folder / "times").write_text((folder / "times").read_text() + "x" if (folder / "times").exists() else "x")


@pytest.mark.ddp
def test_two_jobs_never_prepare_a_folder_together(tmp_path):
    jobs = [FORK.Process(target=_append, args=(tmp_path,)) for _ in range(3)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(PATIENCE)
    assert (tmp_path / "log").read_text() == "in out " * 3
    assert (tmp_path / "times").read_text() == "x"


def _hold(folder, ready):
    with prepare_once(folder):
        ready.set()
        time.sleep(PATIENCE)


@pytest.mark.ddp
def test_the_lock_dies_with_its_process(tmp_path):
    ready = FORK.Event()
    job = FORK.Process(target=_hold, args=(tmp_path, ready))
    job.start()
    assert ready.wait(PATIENCE)
    with (
        pytest.raises(DataError, match=r"another process is preparing this folder.*LT432"),
        prepare_once(tmp_path, wait=False),
    ):
        pass
    job.kill()
    job.join()
    with prepare_once(tmp_path, wait=False) as need:
        assert need


def test_a_path_that_is_no_folder_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(DataError, match=r"expected a folder that can be written.*LT432"),
        prepare_once(tmp_path / "file"),
    ):
        pass
