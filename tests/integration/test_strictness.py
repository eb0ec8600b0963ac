"""Under lt.compat nothing stops code that Lightning 2.6.6 takes, where its numbers are right.

In the folder strictness: rows.txt has the code, below lt's error; lightning_2_6_6.json what Lightning does at each
row, recorded by scripts.py; refused.txt, below the reason, the rows that lt.compat refuses or takes otherwise;
types.txt, below the reason, the rows whose error Lightning's type does not catch; codes.txt the codes of errors without
a row; warnings.txt Lightning's warnings, below lt's codes for them or the reason for none, and rows that meet them.
"""

import json
import os
import re
import sys
from pathlib import Path

import pytest
from tests import processes

pytest.importorskip("lt_compat")
pytest.importorskip("lt_cli")

FOLDER = Path(__file__).parent / "strictness"
RECORDED = json.loads((FOLDER / "lightning_2_6_6.json").read_text("utf-8"))
TAKEN = [row for row, known in RECORDED.items() if "error" not in known]


def listed(name):
    """Return the rows of a file, each with the line that they stand below."""
    found, above = {}, ""
    for line in (FOLDER / name).read_text("utf-8").splitlines():
        if not line.startswith(" "):
            above = line
        else:
            assert line.strip() not in found, line
            found[line.strip()] = above
    return found


ROWS, REFUSED = listed("rows.txt"), listed("refused.txt")
SAMPLE = [
    "fit()",
    "fit(accumulate_grad_batches=1.0)",
    "fit(overfit_batches=False)",
    "fit(enable_progress_bar=0.0)",
    "fit(limit_train_batches=2.0)",
    "fit(min_epochs=3, max_epochs=2)",
    "fit(callbacks=[C.ModelSummary()], enable_model_summary=False)",
    "run('test', ckpt_path='last')",
    "fit(train=loader(0))",
    "fit(train=iter([]))",
    "fit(train=data())",
    "repr(pl.utilities.grad_norm(backwarded(), 2))[:60]",
    "fit(holding(on_fit_start=True))",
    "fit(net(on_fit_start=5))",
    "fit(holding(setup=5))",
    "fit(callbacks=holding(pl.Callback(), on_fit_start=5))",
    "fit(net(on_test_start=lambda self, nope: None))",
    "run('test', holding(on_fit_start=5))",
    "fit(net(train_dataloader=lambda self, data: None))",
    "run('predict', net(predict_dataloader=lambda self, data, size=None: None))",
    "fit(datamodule=holding(Data(), predict_dataloader=lambda data: None))",
    "fit(net(configure_callbacks=lambda self: [C.EarlyStopping('v'), C.EarlyStopping('v')]))",
    "fit(net(configure_callbacks=lambda self: [same := pl.Callback(), same]))",
    "cli('test', '--ckpt_path', saved(Net(scale=2.0)))",
    "cli('fit', '--ckpt_path', saved(Net(scale=2.0)), '--trainer.max_epochs=2')",
    "fit(returning(lambda m, o: {'optimizer': o, 'nope': 1}))",
    "fit(returning(lambda m, o: ([o], [{'scheduler': StepLR(o, 1), 'nope': 1}])))",
    "fit(returning(lambda m, o: {'optimizer': o, 'lr_scheduler': {'scheduler': StepLR(o, 1), 'frequency': 1.0}}))",
]


KINDS = {
    "KeyError": "KeyError",
    "MisconfigurationException": "UsageError",
    **{name: name for name in ("RuntimeError", "TypeError", "ValueError")},
}
"""By the type of Lightning's error, the class of lt's that is caught by it; lt_compat says why no other one."""

OTHER_TYPES = listed("types.txt")
MISTAKES = {
    row: kind for row, known in RECORDED.items() if (kind := KINDS.get(known.get("error", "").partition(":")[0]))
}


def under_compat(rows, folder):
    """Return what the rows do under lt.compat, in one process."""
    words = [sys.executable, "-m", "lt.compat", str(FOLDER / "scripts.py"), "compat", "found.json", *rows]
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PL_", "LT_"))}
    done = processes.run(words, cwd=folder, env=environment, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads((folder / "found.json").read_text("utf-8"))


def differences(rows, folder):
    """Return the rows that lt.compat refuses, takes without a warning that Lightning gives, or to another effect."""
    found = under_compat(rows, folder)
    other = {}
    for row in rows:
        theirs, ours = RECORDED[row], found[row]
        silent = bool(theirs["warned"]) and not ours.get("warned")
        if "error" in ours or silent or theirs["value"] != ours["value"]:
            other[row] = ours
    return other


def warned_of():
    """Return the rows of warnings.txt, each with the codes above it."""
    found, codes = {}, []
    for line in (FOLDER / "warnings.txt").read_text("utf-8").splitlines():
        if not line.startswith(" "):
            codes = line.split() if line.startswith("LT") else []
        elif line.startswith(" " * 8):
            found[line.strip()] = codes
    return found


def uncaught(rows, folder):
    """Return the rows whose error under lt.compat is not caught by the type of Lightning's."""
    found = under_compat(rows, folder)
    return {row: found[row] for row in rows if MISTAKES[row] not in found[row].get("kinds", [MISTAKES[row]])}


def test_every_row_was_recorded_and_every_refusal_is_of_a_row_that_lightning_takes():
    assert ROWS.keys() == RECORDED.keys()
    assert REFUSED.keys() <= {*TAKEN}


def test_every_code_of_an_error_has_a_row_or_a_reason_for_none():
    page = (FOLDER.parents[2] / "docs" / "codes.md").read_text("utf-8")
    errors = re.findall(r"^\| <span id=.*>(LT\d+)</span> \| error", page, re.MULTILINE)
    without = re.findall(r"LT\d+", (FOLDER / "codes.txt").read_text("utf-8"))
    listed = [*without, *({*ROWS.values()} - {"usual"})]
    assert len(listed) == len({*listed})
    assert {*errors} - {*listed} == set(), (
        "run a script that meets it on Lightning, for a row of rows.txt, or codes.txt"
    )
    assert {*listed} - {*errors} == set()


def test_what_lightning_takes_is_taken_in_kind(tmp_path):
    assert differences(SAMPLE, tmp_path) == {}


@pytest.mark.slow
def test_what_lightning_takes_is_taken_and_the_rest_is_listed(tmp_path):
    found = differences(TAKEN, tmp_path)
    assert {row: found[row] for row in found.keys() - REFUSED.keys()} == {}
    assert REFUSED.keys() - found.keys() == set()  # a row that is taken is not listed any more


def test_a_type_of_lightnings_error_catches_one_row_of_each_code(tmp_path):
    a_row = {(ROWS[row], kind): row for row, kind in MISTAKES.items() if row not in OTHER_TYPES}
    assert uncaught([*a_row.values()], tmp_path) == {}


@pytest.mark.slow
def test_a_type_of_lightnings_error_catches_lts_for_the_same_mistake(tmp_path):
    assert uncaught([*MISTAKES], tmp_path).keys() == OTHER_TYPES.keys()


def test_a_mistake_that_lightning_warns_of_is_said_by_the_code_that_stands_above_it(tmp_path):
    found = under_compat(warned_of(), tmp_path)
    other = {
        row: found[row]
        for row, codes in warned_of().items()
        if not any(code in told for told in found[row].get("warned", ()) for code in codes)
    }
    assert other == {}


def test_the_codes_of_lightnings_warnings_are_lts():
    page = (FOLDER.parents[2] / "docs" / "codes.md").read_text("utf-8")
    lines = (FOLDER / "warnings.txt").read_text("utf-8").splitlines()
    codes = {code for line in lines if line.startswith("LT") for code in line.split()}
    assert {code for code in codes if f'id="{code}"' not in page} == set()
