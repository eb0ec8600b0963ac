"""The table of the Trainer's arguments, and what must agree with it."""

import inspect
import re
from dataclasses import fields
from pathlib import Path

import pytest

from lt_core import plugins
from lt_loops import Trainer, former_names
from lt_loops.arguments.limits import Limits
from lt_loops.arguments.table import ARGUMENTS, Settings, normalized, wrong_arguments

PARAMETERS = {name: p for name, p in inspect.signature(Trainer).parameters.items() if p.kind is p.KEYWORD_ONLY}
SHOWN = [name for name, argument in ARGUMENTS.items() if argument.parameter]
TYPES = {row.name: row.type for row in fields(Settings)}
LINES = inspect.getdoc(Trainer).partition("Args:\n")[2].partition("\n\nRaises:")[0]
DOCS = {
    name: " ".join(doc.split()) for name, doc in re.findall(r"^    (\w+): (.*(?:\n        .*)*)", LINES, re.MULTILINE)
}


def members(annotation):
    """Return the members of a union, as they are written."""
    parts, depth = [""], 0
    for sign in annotation.replace(" ", ""):
        depth += (sign == "[") - (sign == "]")
        if sign == "|" and not depth:
            parts.append("")
        else:
            parts[-1] += sign
    return set(parts) - {""}


def test_the_signature_has_the_arguments_of_the_table_in_its_order():
    assert list(PARAMETERS) == SHOWN


@pytest.mark.parametrize("name", SHOWN)
def test_the_signature_takes_what_the_table_says(name):
    argument, parameter = ARGUMENTS[name], PARAMETERS[name]
    assert members(parameter.annotation) == members(argument.written or TYPES[name]) | {"None"}
    assert parameter.default == (getattr(Settings(), name) if argument.none_counts else None)


def test_the_docstring_has_a_line_for_each_of_them_in_its_order():
    assert list(DOCS) == SHOWN


@pytest.mark.parametrize("name", SHOWN)
def test_the_docstring_says_the_default_of_the_table(name):
    default = getattr(Settings(), name)
    if default not in (None, [], (), str(Path.cwd())):
        assert DOCS[name].replace('``"', "").replace('"``', "").endswith(f"; default: {default}.")


@pytest.mark.parametrize("name", ARGUMENTS)
def test_a_default_passes_its_own_check_and_has_its_one_form(name):
    default = getattr(Settings(), name)
    if default is not None and default != []:
        assert wrong_arguments({name: default}) == {}
        assert normalized(name, default) == default


@pytest.mark.parametrize("limit", fields(Limits), ids=lambda limit: limit.name)
def test_a_limit_that_may_change_has_the_type_of_its_argument(limit):
    assert members(limit.type) - {"None"} == members(TYPES[limit.name]) - {"None"}
    assert getattr(Trainer, limit.name).__doc__ == f"{ARGUMENTS[limit.name].doc}."


def test_what_takes_names_or_fills_a_role_is_an_argument():
    assert set(plugins.OF_ARGUMENT) | set(plugins.ROLES.values()) <= set(ARGUMENTS)
    assert all("str" in members(ARGUMENTS[name].written or TYPES[name]) for name in plugins.OF_ARGUMENT)


@pytest.mark.parametrize(("old", "today"), former_names.ARGUMENTS.items())
def test_an_old_name_is_none_of_today_and_leads_to_one_of_today(old, today):
    assert old not in ARGUMENTS
    outer = re.sub(r"\([^)]*\)", "", today)
    assert set(re.findall(r"(\w+)=", outer)) <= set(ARGUMENTS)
