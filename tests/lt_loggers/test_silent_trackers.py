"""A server that accepts and never answers: nothing waits for it for long, all that is lost is said, files are whole."""

import copy
import os
import pickle
import signal
import threading
import time
from contextlib import suppress

import pytest
import torch
from tests.lt_loggers.silent import Server
from tests.patience import PATIENCE

from lt_core.errors import LtWarning
from lt_loggers import TrackerLogger
from lt_loggers.media import Text

SOON = 0.2
"""Seconds of patience in these tests."""


class Service:
    """What a tracker's client talks to; ``silent`` makes each call wait."""

    def __init__(self):
        self.talks = threading.Event()
        self.talks.set()
        self.reached = threading.Event()
        self.runs = {}

    def take(self, run, *what):
        self.reached.set()
        assert self.talks.wait(PATIENCE)
        self.runs.setdefault(run, []).append(what)

    def silence(self):
        self.reached.clear()
        self.talks.clear()


class Tracker(TrackerLogger):
    """A tracker of a stranger's."""

    patience = SOON

    def __init__(self, service, version=None, flush_every=1000, log_model=False):
        super().__init__("", log_model, "project", version, flush_every)
        self.service = service

    def _lt_open(self):
        self.service.take(self.version, "open")
        return self.version

    def _lt_send_rows(self, rows):
        for step, _, row in rows:
            self.service.take(self.experiment, "row", step, row["loss"])
            yield 1

    def _lt_send_hparams(self):
        self.service.take(self.experiment, "hparams", self.hparams)

    def _lt_media(self, name, media, step, folder):
        (folder / "file").write_text(media.text)
        return lambda me: me.service.take(me.experiment, name, (folder / "file").read_text())

    def _lt_send_checkpoint(self, upload):
        self.service.take(self.experiment, "checkpoint", upload.path.read_text())

    def _lt_close(self, status):
        self.service.take(self.experiment, status)

    def __getstate__(self):
        return {**super().__getstate__(), "service": None}


@pytest.fixture
def service():
    found = Service()
    yield found
    found.talks.set()


@pytest.fixture
def tracker(service):
    found = Tracker(service, "a")
    yield found
    service.talks.set()
    rest(found)


def rest(logger):
    """Wait until the thread has done what it was asked to."""
    logger._lt_sender.put(lambda run: None).result(PATIENCE)


def log(logger, *steps):
    for step in steps:
        logger.log_metrics({"loss": float(step)}, step)


def steps(service, run="a"):
    return [what[1] for what in service.runs.get(run, []) if what[0] == "row"]


SILENT = r"Tracker: its server has not answered for 0.2 s.*\[LT560\]"
LOST = r"Tracker: {} rows are not sent.*\[LT561\]"


def test_a_healthy_service_gets_all_in_order_and_save_returns_when_it_has_it(tracker, service):
    tracker.patience = PATIENCE
    tracker.log_hyperparams({"lr": 1})
    log(tracker, 0, 1)
    tracker.log_media("note", "hello", 1)
    log(tracker, 2)
    tracker.save()
    assert steps(service) == [0, 1, 2]
    log(tracker, 3)
    tracker.finalize("success")
    rows = [("row", step, float(step)) for step in range(4)]
    wanted = [("open",), ("hparams", {"lr": 1}), *rows[:2], ("note", "hello"), *rows[2:], ("success",)]
    assert service.runs == {"a": wanted}


@pytest.mark.parametrize(
    "act",
    [lambda tracker: tracker.save(), lambda tracker: tracker.log_media("note", "hello", 1)],
    ids=["save", "log_media"],
)
def test_the_middle_of_a_run_does_not_wait_for_all_of_the_patience(tracker, service, act, monkeypatch):
    monkeypatch.setattr("lt_loggers.tracker._IN_MID_RUN", SOON)
    tracker.patience = PATIENCE  # a signal that ends the job is heeded after the wait, and the grace is 30 s
    service.silence()
    log(tracker, 0)
    act(tracker)
    assert service.reached.wait(PATIENCE)
    assert not service.talks.is_set()


@pytest.mark.parametrize(
    "act",
    [
        lambda tracker: tracker.log_hyperparams({"lr": 1}),
        lambda tracker: tracker.save(),
        lambda tracker: tracker.log_media("note", "hello", 1),
        lambda tracker: tracker.experiment,
        lambda tracker: tracker.finalize("success"),
    ],
    ids=["log_hyperparams", "save", "log_media", "experiment", "finalize"],
)
@pytest.mark.filterwarnings("ignore:.*LT561")
def test_nothing_waits_longer_than_patience_and_the_silence_is_said_once(tracker, service, act):
    service.silence()
    log(tracker, 0)
    with pytest.warns(LtWarning, match=SILENT):
        act(tracker)
    for _ in range(3):  # and nothing more is said
        act(tracker)
        log(tracker, *range(5))
    service.talks.set()
    tracker.patience = PATIENCE
    tracker.finalize("success")
    assert steps(service) == [0, *range(5), *range(5), *range(5)]


def test_what_waited_is_sent_in_order_once_the_service_answers(tracker, service):
    service.silence()
    with pytest.warns(LtWarning, match=SILENT):
        tracker.log_hyperparams({"lr": 1})
    log(tracker, 0, 1)
    assert tracker.log_media("note", "hello", 1)
    log(tracker, 2)
    tracker.save()
    with pytest.warns(LtWarning, match=LOST.format(3)):
        tracker.finalize("success")
    service.talks.set()
    rest(tracker)
    rows = [("row", step, float(step)) for step in range(3)]
    wanted = [("open",), ("hparams", {"lr": 1}), *rows, ("note", "hello"), ("success",)]
    assert service.runs == {"a": wanted}, "media come after the rows that were logged before them"


def test_training_never_waits_for_rows_that_are_due(service):
    tracker = Tracker(service, "a", flush_every=1)
    service.silence()
    log(tracker, 0)
    assert service.reached.wait(PATIENCE)
    time.sleep(SOON)
    with pytest.warns(LtWarning, match=SILENT):
        log(tracker, *range(1, 1000))
    service.talks.set()
    rest(tracker)
    assert steps(service) == list(range(1000))


def test_a_server_that_answers_slowly_is_waited_for(tracker, service):
    tracker.patience = PATIENCE
    service.silence()
    threading.Timer(0.5, service.talks.set).start()
    log(tracker, *range(3))
    tracker.finalize("success")
    assert steps(service) == [0, 1, 2]


def test_where_all_answers_are_slow_only_silence_counts_not_their_sum(tracker, service, monkeypatch):
    tracker.patience = 1.0
    monkeypatch.setattr(service, "take", lambda run, *what: (time.sleep(0.2), Service.take(service, run, *what)))
    log(tracker, *range(10))
    tracker.finalize("success")
    assert steps(service) == list(range(10))


def test_a_failure_in_the_thread_is_raised_by_the_next_row_which_is_not_taken(service, monkeypatch):
    tracker = Tracker(service, "a", flush_every=1)

    def refuse(run, *what):
        raise ConnectionError("refused")

    with monkeypatch.context() as away:
        away.setattr(service, "take", refuse)
        log(tracker, 0)
        rest(tracker)
        with pytest.raises(ConnectionError, match="refused"):
            log(tracker, 1)
    log(tracker, 1, 2)
    tracker.finalize("success")
    assert steps(service) == [0, 1, 2]


@pytest.mark.parametrize("copied", [lambda logger: pickle.loads(pickle.dumps(logger)), copy.deepcopy])
def test_a_copy_is_made_also_where_the_service_refuses_and_the_rows_stay(service, monkeypatch, copied):
    def refuse(run, *what):
        raise ConnectionError("refused")

    tracker = Tracker(service, "a")
    log(tracker, 0)
    with monkeypatch.context() as away:
        away.setattr(service, "take", refuse)
        other = copied(tracker)
    other.service = service
    log(other, 1)
    other.finalize("success")
    tracker.finalize("success")
    assert sorted(steps(service)) == [0, 1]


def test_a_resume_sends_what_the_checkpoint_says_is_not_sent(tracker, service):
    log(tracker, 0, 1)
    tracker.save()
    service.silence()
    with pytest.warns(LtWarning, match=SILENT):
        tracker.log_hyperparams({"net": {"depth": 2}})
    log(tracker, 2, 3)
    tracker.save()
    log(tracker, 4)
    state = pickle.loads(pickle.dumps(tracker.state_dict()))
    others = Service()
    resumed = Tracker(others)
    resumed.load_state_dict(state)
    assert resumed.claim_version() == "a"
    log(resumed, 5)
    resumed.finalize("success")
    assert steps(others) == [2, 3, 4, 5]
    assert ("hparams", {"net": {"depth": 2}}) in others.runs["a"]


def test_a_logger_that_has_the_rows_in_memory_takes_them_from_no_checkpoint(tracker, service):
    service.silence()
    log(tracker, 0, 1)
    with pytest.warns(LtWarning, match=SILENT):
        tracker.log_media("note", "hello", 0)
    tracker.load_state_dict(tracker.state_dict())
    service.talks.set()
    rest(tracker)
    assert steps(service) == [0, 1]


def test_the_state_of_a_healthy_tracker_holds_no_rows(tracker):
    tracker.patience = PATIENCE
    tracker.log_hyperparams({"lr": 1})
    log(tracker, 0, 1)
    tracker.save()
    assert tracker.state_dict() == {"run_id": "a", "step": 1}


@pytest.mark.parametrize("late", [False, True])
def test_another_fit_is_a_run_of_its_own_and_the_thread_of_the_first_ends_in_the_first(service, late):
    tracker = Tracker(service)
    first = tracker.claim_version()
    service.silence()
    log(tracker, 0, 1)
    with pytest.warns(LtWarning, match=SILENT):
        tracker.save()
    with pytest.warns(LtWarning, match=LOST.format(2)):
        tracker.finalize("success")
    if not late:
        service.talks.set()
        rest(tracker)
    tracker.begin_anew()
    second = tracker.claim_version()
    with pytest.warns(LtWarning, match=SILENT) if late else pytest.MonkeyPatch.context():
        tracker.log_hyperparams({"fold": 2})
    log(tracker, 0, 1, 2)
    service.talks.set()
    tracker.patience = PATIENCE
    tracker.finalize("success")
    assert first != second
    assert (steps(service, first), steps(service, second)) == ([0, 1], [0, 1, 2])
    assert [what[0] for what in service.runs[second]] == ["open", "hparams", "row", "row", "row", "success"]


@pytest.mark.parametrize("copied", [lambda logger: pickle.loads(pickle.dumps(logger)), copy.deepcopy])
def test_a_copy_has_neither_thread_nor_rows(tracker, service, copied):
    service.silence()
    log(tracker, 0, 1)
    with pytest.warns(LtWarning, match=SILENT):
        tracker.save()
    other = copied(tracker)
    other.service = service
    log(other, 2)
    service.talks.set()
    rest(tracker)
    other.finalize("success")
    assert sorted(steps(service)) == [0, 1, 2]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_fork_sends_its_own_rows_alone_while_the_parent_s_thread_waits(tracker, service):
    service.silence()
    log(tracker, 0, 1)
    with pytest.warns(LtWarning, match=SILENT):
        tracker.save()
    reads, writes = os.pipe()
    pid = os.fork()
    if not pid:
        tracker.service = Service()
        tracker.patience = PATIENCE
        log(tracker, 2)
        tracker.finalize("success")
        os.write(writes, repr(steps(tracker.service)).encode())
        os._exit(0)
    os.waitpid(pid, 0)
    assert os.read(reads, 100) == b"[2]"
    service.talks.set()
    rest(tracker)
    assert steps(service) == [0, 1]


def test_a_signal_ends_the_wait(tracker, service):
    def handle(number, frame):
        raise KeyboardInterrupt

    tracker.patience = PATIENCE
    service.silence()
    before = signal.signal(signal.SIGUSR2, handle)
    try:
        threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGUSR2)).start()
        with pytest.raises(KeyboardInterrupt):
            tracker.log_hyperparams({"lr": 1})
    finally:
        signal.signal(signal.SIGUSR2, before)


class Checkpoints:
    """What a ModelCheckpoint shows of itself."""

    save_top_k = 1

    def __init__(self, path):
        self.best_model_path = self.last_model_path = str(path)
        path.write_text("weights")


@pytest.mark.parametrize("log_model", [True, "all"])
def test_a_checkpoint_that_a_silent_service_did_not_get_is_uploaded_at_the_end(tmp_path, service, log_model):
    tracker = Tracker(service, "a", log_model=log_model)
    service.silence()
    with pytest.warns(LtWarning, match=SILENT):
        tracker.log_media("note", "hello", 0)
    callback = Checkpoints(tmp_path / "best.ckpt")
    for _ in range(3):
        tracker.after_save_checkpoint(callback)
    service.talks.set()
    rest(tracker)
    tracker.patience = PATIENCE
    tracker.finalize("success")
    assert [what for what in service.runs["a"] if what[0] == "checkpoint"] == [("checkpoint", "weights")]


def test_a_checkpoint_is_given_a_second_more_for_each_megabyte(tmp_path, service):
    tracker = Tracker(service, "a", log_model="all")
    tracker.save()
    callback = Checkpoints(tmp_path / "best.ckpt")
    (tmp_path / "best.ckpt").write_bytes(b"0" * 2_000_000)
    service.silence()
    threading.Timer(1.0, service.talks.set).start()
    tracker.after_save_checkpoint(callback)
    assert [what[0] for what in service.runs["a"]] == ["open", "checkpoint"]


def test_values_of_a_device_are_read_by_the_caller_and_not_by_the_thread(tracker, service):
    tracker.log_metrics({"loss": torch.tensor(1.0, device="meta")}, 1)
    with pytest.raises((NotImplementedError, RuntimeError), match="meta"):
        tracker.save()
    tracker._lt_rows.drop()


def test_the_run_of_a_silent_service_has_a_stand_in(tracker, service):
    service.silence()
    with pytest.warns(LtWarning, match=SILENT):
        tracker.experiment.log({"x": 1})["y"].z = 3
    service.talks.set()
    rest(tracker)
    assert tracker.experiment == "a"


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::ResourceWarning")
class TestMLFlow:
    """MLflow's own client, which waits two minutes for an answer, eight times."""

    @pytest.fixture
    def server(self):
        pytest.importorskip("mlflow.tracking")
        found = Server()
        yield found
        found.close()

    @pytest.fixture
    def logger(self, server):
        from lt_loggers import MLFlowLogger

        found = MLFlowLogger(tracking_uri=server.url.replace("//", "//me:secret@"))
        found.patience = SOON
        yield found
        server.talks.set()
        rest(found)

    def test_a_server_that_is_silent_at_the_start_gets_all_when_it_answers(self, server, logger):
        server.silent_at = "runs/create"
        with pytest.warns(LtWarning, match=r"MLFlowLogger: 127.0.0.1:\d+ has not answered for 0.2 s"):
            assert logger.claim_version() is None
        logger.log_hyperparams({"lr": 1})
        log(logger, 0, 1)
        with pytest.warns(LtWarning, match="2 rows are not sent"):
            logger.finalize("interrupted")
        server.silent_at = ""
        server.talks.set()
        rest(logger)
        assert (server.params, server.statuses) == ({"lr": "1"}, ["KILLED"])
        assert server.points == [("loss", 0), ("loss", 1)]
        assert (logger.version, logger.name) == ("r1", "7")

    @pytest.mark.parametrize("call", ["runs/log-batch", "runs/update"])
    def test_a_server_that_falls_silent_later_gets_all_when_it_answers(self, server, logger, call):
        logger.patience = PATIENCE
        assert logger.claim_version() == "r1"
        logger.patience, server.silent_at = SOON, call
        log(logger, 0, 1)
        with pytest.warns(LtWarning, match="has not answered for 0.2 s|rows are not sent"):
            logger.finalize("success")
        server.silent_at = ""
        server.talks.set()
        rest(logger)
        assert server.points == [("loss", 0), ("loss", 1)]
        assert server.statuses == ["FINISHED"]


def test_text_is_as_it_was_when_it_was_logged(tracker, service):
    tracker.patience = PATIENCE
    tracker.log_media("note", Text("a"), 0)
    assert service.runs["a"][-1] == ("note", "a")


class Refusal(ConnectionError):
    """An answer with an error."""


@pytest.fixture
def refuse(monkeypatch):
    """Has a service refuse what comes, from now on or for some kinds of calls; returns an end of it."""

    def begin(service, *kinds):
        def take(run, *what):
            if what[0] in kinds or not kinds:
                raise Refusal("no")
            Service.take(service, run, *what)

        monkeypatch.setattr(service, "take", take)
        return lambda: monkeypatch.setattr(service, "take", lambda *args: Service.take(service, *args))

    return begin


def kinds(service, run="a"):
    return [what[0] for what in service.runs.get(run, [])]


NEXT = {
    "rows": lambda tracker, status: [log(tracker, 9), tracker.finalize(status)],
    "save": lambda tracker, status: [setattr(tracker._lt_rows, "pause", 0.0), tracker.save()],
    "another fit": lambda tracker, status: tracker.begin_anew(),
    "the end of the process": lambda tracker, status: tracker._lt_finish(),
}


@pytest.mark.parametrize("act", NEXT)
@pytest.mark.parametrize("refused", [(), ("row",), ("hparams",), ("checkpoint",), ("failed",)], ids=str)
def test_what_is_refused_at_the_end_of_a_run_comes_later_and_once(tmp_path, service, refuse, refused, act):
    status = "failed" if "failed" in refused else "success"
    tracker = Tracker(service, "a", log_model=True)
    tracker.patience = PATIENCE
    end = refuse(service, *refused)
    with suppress(Refusal):
        tracker.log_hyperparams({"lr": 1})
    log(tracker, 0, 1)
    tracker.after_save_checkpoint(Checkpoints(tmp_path / "best.ckpt"))
    with pytest.raises(Refusal), pytest.warns(LtWarning, match=r"It is tried again.*\[LT561\]"):
        tracker.finalize(status)
    end()
    NEXT[act](tracker, status)
    if act != "save":
        assert kinds(service).count("checkpoint") == (status == "success")
        assert kinds(service)[-1] == status
    assert kinds(service).count("hparams") == 1
    assert steps(service)[:2] == [0, 1]


def test_what_is_refused_until_another_fit_begins_is_said_to_be_lost(service, refuse):
    tracker = Tracker(service)
    tracker.patience = PATIENCE
    first = tracker.claim_version()
    end = refuse(service)
    log(tracker, 0)
    with pytest.raises(Refusal), pytest.warns(LtWarning, match="LT561"):
        tracker.finalize("success")
    with pytest.warns(LtWarning, match=r"Tracker: what was logged last .* is lost: Refusal: no \[LT563\]"):
        tracker.begin_anew()
    end()
    assert tracker.claim_version() != first
    log(tracker, 5)
    tracker.finalize("success")
    assert service.runs.keys() == {tracker.version}
    assert steps(service, tracker.version) == [5]


def test_the_end_of_a_run_is_sent_also_where_a_checkpoint_is_refused(tmp_path, service, refuse):
    tracker = Tracker(service, "a", log_model=True)
    tracker.patience = PATIENCE
    refuse(service, "checkpoint")
    tracker.after_save_checkpoint(Checkpoints(tmp_path / "best.ckpt"))
    with pytest.raises(Refusal), pytest.warns(LtWarning, match="LT561"):
        tracker.finalize("success")
    assert kinds(service) == ["open", "success"]


def test_a_medium_that_fails_after_nobody_waits_is_heard_of(service, refuse):
    tracker = Tracker(service, "a")
    service.silence()
    log(tracker, 0)
    with pytest.warns(LtWarning, match=SILENT):
        tracker.log_media("note", "hello", 0)
    tracker.patience = PATIENCE
    refuse(service, "note")
    service.talks.set()
    rest(tracker)
    with pytest.raises(Refusal):
        log(tracker, 1)
    log(tracker, 1)
    tracker.finalize("success")
    assert steps(service) == [0, 1]


def test_hyperparameters_that_come_while_others_are_sent_are_sent_too(service):
    tracker = Tracker(service, "a")
    service.silence()
    with pytest.warns(LtWarning, match=SILENT):
        tracker.log_hyperparams({"lr": 1})
    tracker.log_hyperparams({"depth": 2})
    service.talks.set()
    tracker.patience = PATIENCE
    tracker.save()
    assert service.runs["a"][-1] == ("hparams", {"lr": 1, "depth": 2})


def test_a_late_failure_of_an_earlier_run_makes_the_next_one_wait_for_nothing(service, refuse):
    tracker = Tracker(service)
    service.silence()
    log(tracker, 0, 1)
    with pytest.warns(LtWarning, match=SILENT):
        tracker.save()
    tracker.begin_anew()
    refuse(service)

    def go_on():
        service.talks.set()
        rest(tracker)

    with pytest.warns(LtWarning, match="LT563"):  # the thread warns as soon as it can
        go_on()
    assert not tracker._lt_rows.is_waiting


class TestASpawnedRun:
    """The states of ranks come back to the process that started them, which sends what they could not."""

    @pytest.mark.parametrize("continues", [True, False], ids=["continues the first", "is another"])
    def test_its_rows_are_taken_over_though_it_is_the_second(self, service, refuse, continues):
        tracker = Tracker(service)
        for number in range(2):
            rank = pickle.loads(pickle.dumps(tracker))
            rank.service, rank.patience = service, PATIENCE
            if number and not continues:
                rank.begin_anew()
            rank.claim_version()
            end = refuse(service)
            log(rank, *range(3 * number, 3 * number + 3))
            with pytest.raises(Refusal), pytest.warns(LtWarning, match="LT561"):
                rank.finalize("success")
            end()
            tracker.load_state_dict(pickle.loads(pickle.dumps(rank.state_dict())))
            assert tracker.version == rank.version
        tracker.patience = PATIENCE
        tracker._lt_finish()
        rows = [steps(service, run) for run in service.runs]
        assert rows == ([[*range(6)]] if continues else [[0, 1, 2], [3, 4, 5]])

    def test_hyperparameters_that_it_could_not_send_come_too(self, service, refuse):
        tracker = Tracker(service)
        rank = pickle.loads(pickle.dumps(tracker))
        rank.service = service
        rank.claim_version()
        end = refuse(service)
        with suppress(Refusal):
            rank.log_hyperparams({"lr": 1})
        tracker.load_state_dict(rank.state_dict())
        end()
        tracker.patience = PATIENCE
        tracker._lt_finish()
        assert service.runs[tracker.version] == [("open",), ("hparams", {"lr": 1})]


@pytest.mark.parametrize(
    "opened", [lambda tracker: tracker.experiment, lambda tracker: tracker.log_hyperparams({"a": 1})]
)
def test_a_run_opened_before_the_fit_does_not_split_the_one_that_it_resumes(service, opened):
    tracker = Tracker(service)
    tracker.patience = PATIENCE
    opened(tracker)
    tracker._lt_in_fit = True  # as a Trainer says before it loads the state
    tracker.load_state_dict({"run_id": "old", "step": 4})
    assert tracker.claim_version() == "old"
    log(tracker, 5)
    tracker.finalize("success")
    assert steps(service, "old") == [5]
    assert ("hparams", {"a": 1}) in service.runs["old"] or "hparams" not in kinds(service, "old")
