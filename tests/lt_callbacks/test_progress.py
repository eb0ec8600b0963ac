import io
import math
import os
import pty
import re
import sys
import termios
import textwrap
import time
import types
from pathlib import Path
from unittest.mock import MagicMock, Mock

import pytest
import torch
from rich.console import Console
from rich.progress import Progress
from tests import processes
from tests.patience import PATIENCE

from lt_callbacks import ProgressBar, RichProgressBar, TQDMProgressBar
from lt_callbacks.progress.best import BestValues
from lt_callbacks.progress.history import History
from lt_callbacks.progress.lines import LineDisplay
from lt_callbacks.progress.phase import Phase, fit_metrics, format_metrics, format_seconds, format_value
from lt_callbacks.progress.progress_bar import is_live
from lt_callbacks.progress.rich_progress import RichDisplay, RichProgressBarTheme
from lt_core.errors import ConfigError
from lt_core.logger import Logger
from lt_testing import FakeTrainer


def make_trainer(**attributes):
    defaults = {"max_epochs": 2, "num_training_batches": 5, "num_val_batches": [3], "num_test_batches": [2, math.inf]}
    return FakeTrainer(**{**defaults, **attributes})


def run_epoch(bar, trainer, batches=5, validate=True):
    module = trainer.lightning_module
    trainer.batch_idx = 0
    bar.on_train_epoch_start(trainer, module)
    for i in range(batches):
        bar.on_train_batch_end(trainer, module, None, None, i)
        trainer.batch_idx = i + 1
    if validate:
        bar.on_validation_start(trainer, module)
        for i in range(3):
            bar.on_validation_batch_end(trainer, module, None, None, i)
        bar.on_validation_end(trainer, module)
    bar.on_train_epoch_end(trainer, module)


def fit(bar, trainer, epochs=2):
    module = trainer.lightning_module
    bar.setup(trainer, module, "fit")
    bar.on_train_start(trainer, module)
    for epoch in range(epochs):
        trainer.current_epoch = epoch
        trainer.progress_bar_metrics = {"loss": 0.5 / (epoch + 1)}
        run_epoch(bar, trainer)
    bar.on_train_end(trainer, module)
    bar.teardown(trainer, module, "fit")


def test_off_a_terminal_each_epoch_is_one_tidy_line(capsys):
    fit(TQDMProgressBar(), make_trainer())
    first, second = capsys.readouterr().out.splitlines()
    assert first.startswith("Epoch 0/1  5/5  ")
    assert first.endswith("loss=0.500")
    assert second.endswith("loss=0.250")


def test_a_long_epoch_says_count_share_rate_and_remaining_time_every_minute(capsys):
    started = time.monotonic() - 100.0
    display, phase = LineDisplay(), Phase(kind="train", description="Epoch 0", total=100, started=started)
    phase.advance(20, phase.started + 100.0)
    display.update(phase, lambda: {"loss": 0.1})
    assert capsys.readouterr().out == "Epoch 0  20/100 (20%)  5.00 s/it  eta 6:40  loss=0.100\n"


def test_lines_grow_rarer_the_longer_a_phase_lasts():
    display, phase = LineDisplay(), Phase(kind="train", description="Epoch 0")
    assert display.interval(phase) == 60.0
    phase.started -= 10 * 3600
    assert display.interval(phase) == 600.0


def test_only_rank_zero_draws(capsys):
    fit(TQDMProgressBar(), make_trainer(is_global_zero=False))
    assert capsys.readouterr().out == ""


def test_refresh_rate_zero_draws_nothing(capsys):
    bar = TQDMProgressBar(refresh_rate=0)
    fit(bar, make_trainer())
    assert bar.is_disabled
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("arguments", [{"refresh_rate": -1}, {"refresh_rate": 1.5}, {"process_position": -1}])
def test_wrong_counts_are_refused(arguments):
    with pytest.raises(ConfigError, match=next(iter(arguments))):
        TQDMProgressBar(**arguments)


def test_a_test_over_several_loaders_of_unknown_length_counts_all_batches(capsys):
    bar, trainer = TQDMProgressBar(), make_trainer()
    module = trainer.lightning_module
    bar.setup(trainer, module, "test")
    bar.on_test_start(trainer, module)
    for loader, batches in ((0, 2), (1, 4)):
        for i in range(batches):
            bar.on_test_batch_end(trainer, module, None, None, i, loader)
    bar.on_test_end(trainer, module)
    assert capsys.readouterr().out.startswith("Testing  6  ")


def test_a_bar_may_ask_whether_another_loader_has_begun():
    bar, trainer = TQDMProgressBar(), make_trainer()
    bar.setup(trainer, trainer.lightning_module, "test")
    answers = []
    for _ in range(2):
        bar.on_test_start(trainer, trainer.lightning_module)
        answers.append([bar.has_dataloader_changed(i) for i in (0, 0, 1, 1)])
    bar.reset_dataloader_idx_tracker()
    assert (answers, bar.has_dataloader_changed(1)) == ([[True, False, True, False]] * 2, True)


def test_the_run_version_and_logged_values_stand_beside_the_bar():
    class Versioned(Logger):
        version = 7

    bar, trainer = TQDMProgressBar(), make_trainer(loggers=[Versioned()], progress_bar_metrics={"loss": 0.25})
    assert bar.get_metrics(trainer, trainer.lightning_module) == {"v_num": 7, "loss": 0.25}


def test_max_steps_shortens_the_last_epoch_of_the_bar():
    bar, trainer = TQDMProgressBar(), make_trainer(max_steps=3, accumulate_grad_batches=1)
    bar.setup(trainer, trainer.lightning_module, "fit")
    assert bar.total_train_batches == 3


def test_max_steps_counts_by_the_epochs_own_window():
    trainer = make_trainer(max_steps=3, accumulate_grad_batches={0: 1, 2: 4}, num_training_batches=100)
    bar = TQDMProgressBar()
    bar.setup(trainer, trainer.lightning_module, "fit")
    assert bar.total_train_batches == 3
    trainer.current_epoch = 2
    assert bar.total_train_batches == 12


def test_a_resumed_epoch_measures_the_rate_from_where_it_resumed():
    phase = Phase(kind="train", description="", total=100, first=90)
    phase.advance(92, phase.started + 1.0)
    assert phase.rate == pytest.approx(2.0)
    assert phase.remaining == pytest.approx(4.0)


def test_numbers_keep_their_width():
    shown = format_metrics({"a": 0.5, "b": 12345.678, "c": 1e-7, "n": 3, "s": "x"})
    assert shown == "a=0.500, b=1.23e+04, c=1.00e-07, n=3, s=x"
    assert [format_seconds(s) for s in (None, 5, 65, 3665)] == ["-:--", "0:05", "1:05", "1:01:05"]


def shown(bar, trainer, **metrics):
    """Return what stands beside the bar, and what the row of the epoch says."""
    trainer.progress_bar_metrics = metrics
    trainer.callback_metrics = dict.fromkeys([*metrics, "loss"], 0.0)
    return bar._lt_metrics(), bar._lt_epoch_metrics()


@pytest.fixture
def bar():
    bar, trainer = TQDMProgressBar(), make_trainer()
    bar.setup(trainer, trainer.lightning_module, "fit")
    bar.on_train_start(trainer, trainer.lightning_module)
    return bar


def test_a_value_of_step_and_epoch_has_one_name_and_the_version_stands_elsewhere(bar, monkeypatch):
    monkeypatch.setattr(bar, "get_metrics", lambda t, m: {"v_num": 3, **t.progress_bar_metrics})
    beside, row = shown(bar, bar.trainer, loss_step=0.5, loss_epoch=0.25, time_step=7)
    assert beside == {"loss": 0.5, "time_step": 7}
    assert row == {"loss": 0.25, "time_step": 7}


def test_what_has_changed_since_the_last_row_stands_first_beside_the_bar(bar):
    shown(bar, bar.trainer, val_loss=0.5, loss=0.7)
    assert list(shown(bar, bar.trainer, val_loss=0.5, loss=0.6)[0]) == ["loss", "val_loss"]


def test_the_best_values_of_validation_are_marked(bar):
    rows = [shown(bar, bar.trainer, val_loss=v, val_acc=v, val_lr=v, loss=v)[1] for v in (0.5, 0.4, 0.6)]
    assert rows[0] == {"val_loss": "0.500*", "val_acc": "0.500*", "val_lr": 0.5, "loss": 0.5}
    assert rows[1] == {"val_loss": "0.400*", "val_acc": 0.4, "val_lr": 0.4, "loss": 0.4}
    assert rows[2] == {"val_loss": 0.6, "val_acc": "0.600*", "val_lr": 0.6, "loss": 0.6}


def test_what_a_callback_monitors_is_marked_from_where_a_resume_goes_on():
    monitor = types.SimpleNamespace(monitor="f1", mode="max", best_model_score=torch.tensor(0.5))
    best = BestValues([monitor])
    assert best.marked({"f1": 0.4}) == {"f1": 0.4}
    assert best.marked({"f1": 0.6}) == {"f1": "0.600*"}


@pytest.mark.parametrize(("samples", "unit"), [(0, "it"), (32, "samples")])
def test_the_rate_is_in_samples_where_these_are_known(bar, samples, unit):
    trainer = bar.trainer
    for i in range(3):
        trainer.global_samples += samples
        bar._lt_next_draw = 0.0
        bar.on_train_batch_end(trainer, trainer.lightning_module, None, None, i)
    assert (bar._lt_phase.unit, bar._lt_phase.units) == (unit, 3 * (samples or 1))


class Table(History):
    """A history without its colours."""

    def add(self, *args):
        return re.sub(r"\x1b\[[\d;]*m", "", super().add(*args))


@pytest.mark.parametrize("room", [60, 80, 120])
def test_rows_of_many_metrics_fit_the_terminal_and_stand_below_their_names(room):
    table, phase = Table(), Phase(kind="train", description="Epoch 0/9", total=4)
    phase.advance(4, phase.started + 1.0)
    names = [
        "train_loss",
        *(f"val_{name}" for name in ("loss", "accuracy", "f1", "auroc", "precision", "recall", "map")),
    ]
    _, *heading, row = table.add(phase, dict.fromkeys(names, 0.5), room).splitlines()
    assert max(map(len, [*heading, row])) <= room
    again = table.add(phase, dict.fromkeys(names, 0.25), room)
    assert len(again) == len(row)  # no heading again
    assert row.count("0.500") == 8 if room > 60 else f"+{8 - row.count('0.500')}" in heading[-1]


@pytest.mark.parametrize("monitor", ["val_auc", "val_loss", None])
def test_what_is_monitored_comes_first_in_rows_and_beside_the_bar_and_a_validation_loss_next(monitor):
    callback = types.SimpleNamespace(monitor=monitor, mode="max", best_model_score=None)
    bar, trainer = RichProgressBar(), make_trainer(callbacks=[callback])
    bar.setup(trainer, trainer.lightning_module, "fit")
    bar.on_train_start(trainer, trainer.lightning_module)
    names = [*(f"train_{number}" for number in range(5)), "val_auc", "val_f1", "val_loss"]
    trainer.progress_bar_metrics = dict.fromkeys(names, 1.0)
    first = [name for name in (monitor, "val_loss") if name]
    if monitor:
        assert [next(iter(found)) for found in (bar._lt_metrics(), bar._lt_epoch_metrics(), bar._lt_metrics())] == [
            monitor
        ] * 3
    assert list(bar._lt_epoch_metrics()) == list(dict.fromkeys([*first, *names]))


def test_numbers_above_one_keep_their_digits_in_a_narrow_table():
    table, phase = Table(), Phase(kind="train", description="Epoch 0/9")
    names = [f"val_m{number}" for number in range(12)]
    rows = [table.add(phase, dict.fromkeys(names, value), 80) for value in (0.5, 45.2, 120.5, 1234.5, 3e-5)]
    assert [row.split()[-1] for row in rows[1:]] == ["45.2", "120.5", "1234", "3e-05"]


def test_the_heading_stands_once_over_eight_metrics_that_fall_by_orders_of_magnitude_in_80_columns():
    table, phase = Table(), Phase(kind="train", description="Epoch 0/9")
    names = [f"train_metric_{number}" for number in range(7)]
    first, *rows = [
        table.add(phase, {"val_loss": f"{format_value(value)}*", **dict.fromkeys(names, value)}, 80)
        for value in (0.5, 0.02, 3e-3, 4.2e-4, 5e-7)
    ]
    assert "val_loss" in first
    assert [len(row.splitlines()) for row in rows] == [1, 1, 1, 1]
    assert "4.20e-04*" in rows[2]
    assert max(len(line) for text in (first, *rows) for line in text.splitlines()) <= 80


def test_a_row_may_have_no_throughput_and_no_description():
    phase = Phase(kind="train", description="")
    assert "0.500" in Table().add(phase, {"loss": 0.5, "note": ""}, 80)


def test_a_metric_that_comes_later_stands_in_the_order_of_its_row():
    table, phase = Table(), Phase(kind="train", description="Epoch 0/9")
    table.add(phase, {"train_loss": 0.5}, 80)
    later = table.add(phase, {"val_loss": 0.4, "train_loss": 0.3}, 80)
    assert re.findall(r"\w+_loss", later) == ["val_loss", "train_loss"]


def test_a_number_that_is_wider_than_its_column_has_the_heading_said_again():
    table, phase = Table(), Phase(kind="train", description="Epoch 0/9")
    assert table.add(phase, {"loss": 0.5}, 80).startswith("\n")
    assert len(table.add(phase, {"loss": "0.123456789"}, 80).splitlines()) == 2
    assert len(table.add(phase, {"loss": 0.5}, 80).splitlines()) == 1


def test_an_epoch_that_is_cut_short_says_where():
    phase = Phase(kind="train", description="Epoch 0", total=40, done=0)
    phase.done = 3
    assert "Epoch 0 3/40" in Table().add(phase, {}, 80)


def test_metrics_that_do_not_fit_beside_the_bar_are_counted():
    metrics = {"a": 0.5, "b": 1, "c": 2}
    assert [fit_metrics(metrics, room) for room in (15, 14, 10, 9, 3, 1)] == [
        "a=0.500 b=1 c=2",
        "a=0.500 b=1 +1",
        "a=0.500 +2",
        "+3",
        "+3",
        "",
    ]


def test_a_batch_job_s_log_has_no_control_characters(capsys):
    fit(TQDMProgressBar(), make_trainer())
    assert capsys.readouterr().out.replace("\n", "").isprintable()


@pytest.mark.parametrize("widgets", [True, False])
def test_a_notebook_has_a_bar_where_it_has_widgets_and_lines_elsewhere(monkeypatch, widgets):
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", types.ModuleType("zmqshell"))
    monkeypatch.setattr("lt_callbacks.progress.progress_bar.find_spec", lambda name: widgets or None)
    bar, trainer = RichProgressBar(), make_trainer()
    bar.setup(trainer, trainer.lightning_module, "fit")
    assert isinstance(bar.make_display(), LineDisplay) is not widgets


def run_on_terminal(code):
    """Run ``code`` with stdout and stderr on a pseudo-terminal; return the exit code and what the terminal got."""
    head = "import sys; sys.path.insert(0, sys.argv[1]); from progress_driver import *\n"
    master, slave = pty.openpty()
    termios.tcsetwinsize(slave, (24, 100))
    process = processes.Popen(
        [sys.executable, "-W", "ignore", "-c", head + textwrap.dedent(code), str(Path(__file__).parent)],
        stdout=slave,
        stderr=slave,
        env={**os.environ, "TERM": "xterm"},
    )
    os.close(slave)
    got = b""
    while True:
        try:
            chunk = os.read(master, 65536)
        except OSError:  # Linux says so when the last writer is gone
            break
        if not chunk:
            break
        got += chunk
    os.close(master)
    return process.wait(PATIENCE), screen(got.decode())


def screen(text):
    """Return the lines that a terminal shows after ``text``: carriage returns, line feeds, cursor up, clear line."""
    lines, row, column, i = [""], 0, 0, 0
    while i < len(text):
        char = text[i]
        if char == "\x1b":
            end = next(j for j in range(i + 1, len(text)) if text[j].isalpha())
            argument, command = text[i + 2 : end], text[end]
            if command == "A":
                row -= int(argument or 1)
            elif command == "K":
                lines[row] = lines[row][:column] if argument in ("", "0") else ""
            i = end + 1
            continue
        if char == "\r":
            column = 0
        elif char == "\n":
            row, column = row + 1, 0 if text[i - 1] == "\r" else column
            if row == len(lines):
                lines.append("")
        else:
            lines[row] = lines[row][:column].ljust(column) + char + lines[row][column + 1 :]
            column += 1
        i += 1
    return [line.rstrip() for line in lines if line.strip()]


def check_rows(lines):
    """Check what a fit that talks leaves on a terminal: what was said, and a row for each epoch, without a bar."""
    spoken = ["hello 0", "log 0", "hello 1", "log 1"]
    assert [line for line in lines if line in spoken] == spoken
    heading, first, second = [line.split() for line in lines if line not in spoken]
    assert heading == ["time", "it/s", "loss"]
    assert (first[:2], first[-1]) == (["Epoch", "0/1"], "0.500")
    assert (second[:2], second[-1]) == (["Epoch", "1/1"], "0.250")


def test_prints_logs_and_warnings_do_not_tear_the_tqdm_bar():
    code, lines = run_on_terminal("fit(TQDMProgressBar(), talk=True)")
    assert code == 0
    check_rows(lines)


def test_prints_and_logs_do_not_tear_the_rich_bar():
    code, lines = run_on_terminal("fit(RichProgressBar(), talk=True)")
    assert code == 0
    check_rows(lines)


@pytest.mark.parametrize("kind", ["TQDMProgressBar", "RichProgressBar"])
def test_ctrl_c_leaves_a_clean_terminal(kind):
    code, lines = run_on_terminal(f"""
        out, err = sys.stdout, sys.stderr
        try:
            fit({kind}(), interrupt=True)
        except KeyboardInterrupt:
            assert (sys.stdout, sys.stderr) == (out, err)
            print("after")
    """)
    assert code == 0
    assert lines[-1] == "after"
    assert lines[-2].startswith("Epoch 0/1")


def test_leave_keeps_a_line_for_each_epoch():
    _, lines = run_on_terminal("fit(TQDMProgressBar(leave=True))")
    assert [line[:10] for line in lines] == ["Epoch 0/1 ", "Epoch 1/1 "]


@pytest.mark.parametrize("kind", ["TQDMProgressBar", "RichProgressBar"])
def test_a_validation_in_an_epoch_has_the_epoch_s_line(kind):
    _, lines = run_on_terminal(f"fit({kind}(), interrupt='validation')")
    (bar,) = [line for line in lines if line.startswith("Epoch")]
    assert bar.startswith("Epoch 0/1 · Validation")
    assert "2/3" in bar


def test_a_validation_bar_of_one_s_own_has_a_line_of_its_own():
    _, lines = run_on_terminal("""
        class Own(TQDMProgressBar):
            def init_validation_tqdm(self):
                bar = super().init_validation_tqdm()
                bar.set_description_str("Mine")
                return bar
        fit(Own(), interrupt="validation")
    """)
    assert sum(re.match("Epoch 0/1 +━", line) is not None for line in lines) == 1


def test_a_dumb_terminal_gets_lines(monkeypatch):
    monkeypatch.setattr("sys.stdout", types.SimpleNamespace(isatty=lambda: True))
    monkeypatch.setenv("TERM", "dumb")
    assert not is_live()
    monkeypatch.setenv("TERM", "xterm")
    assert is_live()


class _Drawn:
    """A display that notes what it is told to draw."""

    delay = 0.0

    def __init__(self):
        self.drawn = []

    def interval(self, phase):
        return 1e-9

    def update(self, phase, metrics):
        self.drawn.append(f"{phase.kind} {phase.count}")

    def finish(self, phase, metrics):
        """Draw nothing."""

    def resume(self, phase):
        """Draw nothing."""


def test_the_epochs_bar_shows_all_its_batches_while_validation_runs(monkeypatch):
    monkeypatch.setattr("lt_callbacks.progress.progress_bar.is_live", lambda: True)
    bar, trainer, display = TQDMProgressBar(refresh_rate=4), make_trainer(num_training_batches=6), _Drawn()
    bar.make_display = lambda: display
    bar.setup(trainer, trainer.lightning_module, "fit")
    run_epoch(bar, trainer, batches=5)
    assert display.drawn[:2] == ["train 4/6", "train 5/6"]


def test_a_bar_that_draws_in_its_own_hooks_needs_no_display(capsys):
    class Percent(ProgressBar):
        def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
            super().on_train_batch_end(trainer, pl_module, outputs, batch, batch_idx)
            print(f"{(batch_idx + 1) / self.total_train_batches:.0%}")

        def on_validation_start(self, trainer, pl_module):
            super().on_validation_start(trainer, pl_module)
            print(self.total_val_batches, self.total_val_batches_current_dataloader)

    fit(Percent(), make_trainer(), epochs=1)
    assert capsys.readouterr().out.split() == ["20%", "40%", "60%", "80%", "100%", "3", "3"]


@pytest.mark.parametrize(("kind", "kept"), [("train", {}), ("validate", None)])
def test_a_saved_notebook_keeps_a_bar_that_stays_and_nothing_of_one_that_gave_way_to_rows(kind, kept, monkeypatch):
    cell, widgets = Mock(), Mock(Output=MagicMock)
    monkeypatch.setitem(sys.modules, "ipywidgets", widgets)
    monkeypatch.setitem(sys.modules, "IPython.display", Mock(display=Mock(return_value=cell)))
    progress = Progress(console=Console(force_jupyter=True))
    display, phase = (
        RichDisplay(progress, 0.1, False, RichProgressBarTheme()),
        Phase(kind=kind, description="", total=1),
    )
    display.update(phase, dict)
    phase.advance(1, phase.started + 1.0)
    display.finish(phase, dict)
    phase.over = True
    display.close()
    in_its_place = progress if kept is None else kept
    cell.update.assert_called_once_with(in_its_place, raw=kept == {})


def test_a_process_forked_from_a_notebook_shows_no_widgets(monkeypatch):
    monkeypatch.setitem(sys.modules, "ipykernel.zmqshell", types.ModuleType("zmqshell"))
    monkeypatch.setattr("lt_callbacks.progress.progress_bar.find_spec", lambda name: True)
    assert is_live()
    child = os.fork()
    if not child:
        os._exit(int(is_live()))
    assert os.waitpid(child, 0)[1] == 0


class Described(TQDMProgressBar):
    """Says another description, as Lightning's guide does."""

    def on_train_epoch_start(self, trainer, pl_module):
        super().on_train_epoch_start(trainer, pl_module)
        self.train_progress_bar.set_description(f"Run {trainer.current_epoch}")


def test_a_bar_that_reaches_for_its_tqdm_works_off_a_terminal(capsys):
    bar = Described()
    fit(bar, make_trainer())
    assert capsys.readouterr().out.startswith("Epoch 0/1  5/5  ")
    assert bar.val_progress_bar.disable
    with pytest.raises(AttributeError, match="no attribute 'progress_bar'"):
        _ = bar.progress_bar


def test_a_description_of_ones_own_stays_for_its_epoch():
    bar, trainer = Described(), make_trainer()
    module, said = trainer.lightning_module, []
    bar.setup(trainer, module, "fit")
    bar.on_train_start(trainer, module)
    for epoch in range(2):
        trainer.current_epoch = epoch
        run_epoch(bar, trainer)
        said.append((bar.train_progress_bar.desc, bar._lt_bars["train"]._lt_phase.label))
    bar.on_train_end(trainer, module)
    assert said == [("Run 0", "Run 0"), ("Run 1", "Run 1")]


def test_a_bar_has_the_methods_of_tqdm_and_shows_what_they_say():
    _, lines = run_on_terminal("""
        class Talks(TQDMProgressBar):
            def on_train_batch_end(self, trainer, *args):
                bar = self.train_progress_bar
                bar.set_description(f"Run [/{bar.n} of {bar.total}]")
                bar.set_postfix({"mine": 0.5}, other=1)
                bar.update(); bar.refresh(); bar.unpause()
                if bar.n == 4:
                    bar.write("above")
                super().on_train_batch_end(trainer, *args)
        fit(Talks(), interrupt="validation")
    """)
    assert "above" in lines
    (bar,) = [line for line in lines if "Validation" in line]
    assert bar.startswith("Epoch 0/1 · Validation")
    assert run_on_terminal("""
        class Talks(TQDMProgressBar):
            def on_train_batch_end(self, trainer, *args):
                self.train_progress_bar.set_description("Run [/x]")
                self.train_progress_bar.set_postfix({"mine": 0.5}, other=1)
                super().on_train_batch_end(trainer, *args)
        fit(Talks(), interrupt=True)
    """)[1][0].startswith("Run [/x] ━")


class FakeTqdm:
    """What is asked of a tqdm of the user's own."""

    made: list = []  # noqa: RUF012  (cleared by each test)

    def __init__(self, **arguments):
        self.n, self.initial, self.said, self.closed, self.ends = 0, 0, "", False, []
        self.made.append(self)

    def set_description_str(self, text, refresh=True):
        self.said = text

    set_postfix_str = lambda self, text, refresh=True: None  # noqa: E731

    def reset(self, total=None):
        self.n, self.total = 0, total

    def update(self, n=1):
        self.n += n

    def refresh(self):
        self.ends.append(self.n)

    def close(self):
        self.closed = True


@pytest.mark.parametrize("maker", ["init_train_tqdm", "init_validation_tqdm"])
def test_a_tqdm_of_ones_own_is_moved_on_and_the_others_become_tqdm_s(monkeypatch, maker):
    FakeTqdm.made.clear()
    monkeypatch.setattr("lt_callbacks.progress.tqdm_progress._tqdm_class", lambda: FakeTqdm)
    own = []

    def make(self):
        own.append(FakeTqdm())
        return own[-1]

    bar = type("Own", (TQDMProgressBar,), {maker: make})()
    fit(bar, make_trainer())
    assert len(own) == 2  # a bar for each epoch
    assert [one.ends[-1] for one in own] == ([5, 5] if maker == "init_train_tqdm" else [3, 3])
    assert all(one.closed for one in FakeTqdm.made)
    assert {one.said for one in FakeTqdm.made} >= {"Epoch 1/1", "Epoch 1/1 · Validation"}


def test_bars_that_are_overridden_are_made_whatever_the_place_and_however_short_the_phase(monkeypatch):
    monkeypatch.setattr(sys, "stdout", io.StringIO())
    made = []

    class Mine(TQDMProgressBar):
        def init_train_tqdm(self):
            made.append("train")
            return super().init_train_tqdm()

        def init_validation_tqdm(self):
            made.append("validation")
            return super().init_validation_tqdm()

    fit(Mine(), make_trainer())
    assert made == ["train", "validation", "validation"]


def test_the_environment_makes_bars_rarer(monkeypatch):
    monkeypatch.setenv("TQDM_MINITERS", "5")
    monkeypatch.setenv("TQDM_MININTERVAL", "2.5")
    assert [TQDMProgressBar(rate).refresh_rate for rate in (0, 1, 9)] == [0, 5, 9]
    assert TQDMProgressBar()._lt_interval == 2.5


def test_a_rate_of_the_environment_that_is_no_number_is_named(monkeypatch):
    monkeypatch.setenv("TQDM_MINITERS", "often")
    with pytest.raises(ConfigError, match="TQDM_MINITERS='often' in the environment"):
        TQDMProgressBar()


def test_max_steps_is_the_total_where_the_loader_has_no_length():
    trainer = make_trainer(num_training_batches=math.inf, max_steps=4, accumulate_grad_batches=2)
    bar = TQDMProgressBar()
    bar.setup(trainer, trainer.lightning_module, "fit")
    assert bar.total_train_batches == 8
    trainer.global_step = 3
    assert bar.total_train_batches == 2
    trainer.max_steps = -1
    assert bar.total_train_batches == math.inf
