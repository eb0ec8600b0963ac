import json
import subprocess
import sys

import pytest
from tests import processes

from lt_cli import main as command
from lt_cli.commands.env import report
from lt_cli.plugin_list import installed_plugins


def test_the_version_needs_neither_torch_nor_jsonargparse():
    code = (
        "import sys; from lt_cli.main import main; main(['--version']); main(['--help']); main(['plugins']);"
        "sys.exit(bool({'torch', 'jsonargparse', 'lt_core'} & set(sys.modules)))"
    )
    shown = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert shown.startswith("lt")


def test_an_unknown_command_is_told_what_was_probably_meant(capsys):
    assert command.main(["fitt"]) == 2
    assert "Did you mean 'fit'?" in capsys.readouterr().err


def test_every_command_is_listed_and_can_be_imported(capsys):
    command.main([])
    shown = capsys.readouterr().out
    for entry in command.COMMANDS:
        assert f"  {entry.name} " in shown
        module, _, function = entry.origin.partition(":")
        assert callable(getattr(__import__(module, fromlist=[function]), function))


def test_the_report_names_versions_devices_and_plugins(capsys):
    assert command.main(["env", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["packages"]["lt-core"]
    assert shown["packages"]["torch"]
    assert any("cpu" in names and said == "yes" for names, said in shown["devices"].items())
    assert {"group": "strategies", "name": "single", "package": "lt-core"}.items() <= shown["plugins"][
        -1
    ].items() or any(plugin["name"] == "single" for plugin in shown["plugins"])


def test_a_reader_that_goes_away_is_no_error():
    code = "import sys; from lt_cli.main import main; sys.exit(main(['env', '--json']))"
    process = processes.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    process.stdout.close()
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait() == 141


def test_the_report_says_which_variables_change_where_a_run_happens(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3")
    assert report()["variables"]["CUDA_VISIBLE_DEVICES"] == "3"


def test_plugins_are_listed_by_group_with_the_package_that_brings_each(capsys):
    assert command.main(["plugins", "precision"]) == 0
    shown = capsys.readouterr().out
    assert "lt-core" in shown
    assert "32-true" in shown
    assert "loggers:" not in shown


def test_a_group_without_plugins_is_an_error_that_lists_the_groups(capsys):
    assert command.main(["plugins", "strategy"]) == 2
    assert "strategies" in capsys.readouterr().err


@pytest.mark.parametrize("plugin", [p for p in installed_plugins() if p.package == "lt-core"], ids=lambda p: p.name)
def test_plugins_of_the_core_can_be_imported(plugin, capsys):
    command.main(["plugins", plugin.group, "--check"])
    assert f"{plugin.group} {plugin.name} (lt-core): ok" in capsys.readouterr().out
