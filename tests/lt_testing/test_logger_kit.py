"""The kit for loggers: one that writes lines and one whose thread sends rows pass it, and planted faults do not."""

import json
import queue
import threading
from pathlib import Path

import pytest

from lt_core.logger import Logger
from lt_testing import LoggerKit


class Lines(Logger):
    """A line of JSON for each row; what is wrong derives from it."""

    def __init__(self, save_dir):
        self._save_dir, self._version, self.rows = str(save_dir), None, []

    @property
    def save_dir(self):
        return self._save_dir

    @property
    def name(self):
        return "lines"

    @property
    def version(self):
        return self._version

    @property
    def log_dir(self):
        return None if self._version is None else str(Path(self._save_dir, "lines", f"version_{self._version}"))

    @property
    def file(self):
        self.claim_version()
        return Path(self.log_dir, "rows.jsonl")

    def claim_version(self, beside=()):
        number = 0
        while self._version is None:
            try:
                Path(self._save_dir, "lines", f"version_{number}").mkdir(parents=True)
            except FileExistsError:
                number += 1
            else:
                self._version = number
        return self._version

    def use_version(self, version):
        self._version = version

    def begin_anew(self):
        self.save()
        self._version = None

    def log_metrics(self, metrics, step=None):
        self.rows.append(self.row(metrics, step or 0))

    def row(self, metrics, step):
        return json.dumps({"step": step, **{name: self.number(value) for name, value in metrics.items()}})

    def number(self, value):
        return float(value)

    def save(self):
        if self.rows:
            self.write("".join(f"{row}\n" for row in self.rows))
            self.rows.clear()

    def write(self, text):
        self.file.parent.mkdir(parents=True, exist_ok=True)
        with self.file.open("a") as file:
            file.write(text)

    def finalize(self, status):
        self.save()

    def state_dict(self):
        return {"version": self._version, "size": self.file.stat().st_size if self.file.exists() else 0}

    def load_state_dict(self, state):
        self._version = state["version"]
        if self.file.exists():
            with self.file.open("r+b") as file:
                file.truncate(state["size"])


class LinesKit(LoggerKit):
    __test__ = False
    kind = Lines

    def make_logger(self, save_dir):
        return self.kind(save_dir)

    def read_rows(self, logger):
        return [json.loads(line) for line in logger.file.read_text().splitlines()] if logger.file.exists() else []


class TestLines(LinesKit):
    __test__ = True


class Sending(Lines):
    """Has a thread send the rows, again where they are not taken; they are there when it has been closed."""

    def __init__(self, save_dir):
        super().__init__(save_dir)
        self.begin()

    def begin(self):
        self.todo = queue.Queue()
        self.thread = None

    def save(self):
        rows, self.rows = self.rows, []
        for row in rows:
            self.todo.put(row)

    def finalize(self, status):
        self.save()
        self.thread = threading.Thread(target=self.send)
        self.thread.start()
        self.thread.join()

    def send(self):
        while not self.todo.empty():
            self.write(f"{self.todo.queue[0]}\n")
            self.todo.get()

    def begin_anew(self):
        self.finalize("success")
        self._version = None

    def __getstate__(self):
        return {name: value for name, value in vars(self).items() if name not in ("todo", "thread")}

    def __setstate__(self, state):
        vars(self).update(state)
        self.begin()


class TestSending(LinesKit):
    __test__, kind, resumes = True, Sending, False


class ClearsFirst(Lines):
    """Loses rows where writing fails."""

    def save(self):
        rows, self.rows = self.rows, []
        if rows:
            self.write("".join(f"{row}\n" for row in rows))


class WritesAllAgain(Lines):
    """Keeps what it has written."""

    def save(self):
        if self.rows:
            self.write("".join(f"{row}\n" for row in self.rows))


class KeepsTheDict(Lines):
    def log_metrics(self, metrics, step=None):
        self.rows.append((metrics, step))

    def save(self):
        self.rows = [self.row(*row) for row in self.rows]
        super().save()


class CopiesTheDict(KeepsTheDict):
    """And not the tensors in it."""

    def log_metrics(self, metrics, step=None):
        super().log_metrics(dict(metrics), step)


class SixDigits(Lines):
    def number(self, value):
        return float(f"{float(value):.6g}")


class OneOfAStep(Lines):
    def log_metrics(self, metrics, step=None):
        self.rows = [row for row in self.rows if json.loads(row)["step"] != step]
        super().log_metrics(metrics, step)


class FirstColumns(Lines):
    """Knows the columns of the first row."""

    columns = None

    def row(self, metrics, step):
        self.columns = self.columns or set(metrics)
        return super().row({name: value for name, value in metrics.items() if name in self.columns}, step)


class FlatNames(Lines):
    def row(self, metrics, step):
        return super().row({name.replace("/", "_"): value for name, value in metrics.items()}, step)


class OnlyNumbers(Lines):
    def row(self, metrics, step):
        return super().row({name: value for name, value in metrics.items() if isinstance(value, (int, float))}, step)


class FiniteOnly(Lines):
    def row(self, metrics, step):
        return super().row({n: v for n, v in metrics.items() if abs(float(v)) < float("inf")}, step)


class ClosesForGood(Lines):
    closed = False

    def write(self, text):
        if not self.closed:
            super().write(text)

    def finalize(self, status):
        super().finalize(status)
        self.closed = True


class EagerFolder(Lines):
    def __init__(self, save_dir):
        super().__init__(save_dir)
        self.claim_version()


class SameVersion(Lines):
    def claim_version(self, beside=()):
        self._version = 0
        return 0


class Astray(Lines):
    """Its folder is where ``ckpt_path="auto"`` does not look."""

    @property
    def log_dir(self):
        return None if self._version is None else f"{self._save_dir}/other/{self._version}"


class AppendsAfterAResume(Lines):
    def load_state_dict(self, state):
        self._version = state["version"]


class NewVersionInAResume(Lines):
    def load_state_dict(self, state):
        pass


class OldRowsInTheNextFit(Lines):
    def begin_anew(self):
        self._version = None


class SortsHyperparameters(Lines):
    def log_hyperparams(self, params, metrics=None):
        params["net"] = str(params.get("net"))


class JSONHyperparameters(Lines):
    def log_hyperparams(self, params, metrics=None):
        json.dumps(params)


class SaysItShowsAll(Lines):
    def log_media(self, name, value, step=None):
        return True


class HoldsALock(Lines):
    def __init__(self, save_dir):
        super().__init__(save_dir)
        self.lock = threading.Lock()


class StateOfTensors(Lines):
    def state_dict(self):
        return {**super().state_dict(), "path": self.file}


class WritesAllButTheLast(Lines):
    """Keeps the row that it thinks is still being filled."""

    def save(self):
        last = self.rows[-1:]
        self.rows = self.rows[:-1]
        super().save()
        self.rows = last


class TakesTheEpochOut(Lines):
    def log_metrics(self, metrics, step=None):
        metrics.pop("value", None)
        super().log_metrics(metrics, step)


class OneBufferForAll(Lines):
    def __init__(self, save_dir, rows=[]):  # noqa: B006  the mistake
        super().__init__(save_dir)
        self.rows = rows


class OwnNames(Lines):
    def log_metrics(self, values, global_step=None):
        super().log_metrics(values, global_step)


class CountsByItself(Lines):
    count = -1

    def log_metrics(self, metrics, step=None):
        self.count += 1
        super().log_metrics(metrics, self.count)


class LeavesItsThread(Lines):
    def finalize(self, status):
        super().finalize(status)
        self.thread = threading.Thread(target=threading.Event().wait, args=(5,))
        self.thread.start()


class AlwaysRaises(Lines):
    """Has no place for an answer that a run failed."""

    def finalize(self, status):
        super().finalize(status)
        assert status == "success"


CAUGHT_BY = [
    (WritesAllButTheLast, "test_rows_are_there_after_save"),
    (WritesAllButTheLast, "test_rows_are_there_after_finalize"),
    (TakesTheEpochOut, "test_a_dict_changed_later_is_logged_as_it_was"),
    (OneBufferForAll, "test_two_runs_get_two_versions"),
    (OwnNames, "test_rows_are_there_after_save"),
    (CountsByItself, "test_many_rows_come_in_order"),
    (LeavesItsThread, "test_logging_goes_on_after_finalize"),
    (AlwaysRaises, "test_logging_goes_on_after_finalize"),
    (ClearsFirst, "test_rows_that_could_not_be_written_come_with_the_next"),
    (WritesAllAgain, "test_a_new_name_later_loses_no_row"),
    (KeepsTheDict, "test_a_dict_changed_later_is_logged_as_it_was"),
    (CopiesTheDict, "test_a_tensor_changed_later_is_logged_as_it_was"),
    (SixDigits, "test_rows_are_there_after_save"),
    (OneOfAStep, "test_several_rows_of_a_step_are_all_kept"),
    (FirstColumns, "test_a_new_name_later_loses_no_row"),
    (FlatNames, "test_odd_names_are_kept_apart"),
    (OnlyNumbers, "test_tensors_ints_and_bools_are_numbers"),
    (FiniteOnly, "test_nan_and_infinity_are_logged"),
    (ClosesForGood, "test_logging_goes_on_after_finalize"),
    (EagerFolder, "test_making_one_writes_nothing"),
    (SameVersion, "test_two_runs_get_two_versions"),
    (Astray, "test_the_folder_of_a_run_lies_in_that_of_the_experiment"),
    (AppendsAfterAResume, "test_a_resumed_run_continues_its_rows"),
    (NewVersionInAResume, "test_a_resumed_run_has_the_version_of_the_first"),
    (OldRowsInTheNextFit, "test_one_that_begins_anew_is_as_a_new_one"),
    (SortsHyperparameters, "test_hyperparameters_of_any_kind_are_taken"),
    (JSONHyperparameters, "test_hyperparameters_of_any_kind_are_taken"),
    (SaysItShowsAll, "test_media_are_shown_or_declined"),
    (HoldsALock, "test_copies_for_other_processes_can_be_made"),
    (StateOfTensors, "test_the_state_is_plain_data"),
]


@pytest.mark.parametrize(("kind", "test"), CAUGHT_BY)
def test_a_wrong_logger_fails_where_it_is_wrong(kind, test, caught_by):
    assert caught_by(type("Wrong", (LinesKit,), {"__test__": False, "kind": kind}), test)


def test_a_logger_whose_checkpoints_auto_would_not_find_is_told_where_they_should_be(tmp_path):
    kit = type("Kit", (LinesKit,), {"__test__": False, "kind": Astray})()
    with pytest.raises(AssertionError, match=r"expected log_dir below root_dir.*root_dir=None"):
        kit.test_the_folder_of_a_run_lies_in_that_of_the_experiment(tmp_path)
