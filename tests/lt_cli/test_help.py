"""Help is one screen in plain words; nothing is guessed from a prefix; shells complete every command."""

import os
import shutil
import sys

import pytest
from tests import processes

from lt_cli import LightningCLI
from lt_cli.help.outline import GROUPS_OF, plugin_page
from lt_cli.help.page import Row, page, plain, short_type
from lt_cli.main import main
from lt_core.plugins import OF_ARGUMENT


def helped(users, capsys, *words):
    with pytest.raises(SystemExit) as end:
        LightningCLI(users.Net, trainer_class=users.Trainer, args=list(words), parser_kwargs={"default_env": True})
    assert end.value.code == 0
    return capsys.readouterr().out


def test_the_first_page_shows_what_people_set(users, capsys):
    shown = helped(users, capsys, "fit", "--help")
    assert "--trainer.max_epochs" in shown
    assert "--model.lr" in shown
    assert "--trainer.limit " not in shown
    assert not any(noise in shown for noise in ("ARG:", "ENV:", "``", "<class"))


def test_all_arguments_are_shown_with_their_types_when_asked_for(users, capsys):
    shown = helped(users, capsys, "fit", "--help.all")
    assert "--trainer.limit" in shown
    assert "learning rate; default: 0.1 (float)" in shown


def test_the_trainer_has_a_page_of_its_own(users, capsys):
    shown = helped(users, capsys, "fit", "--trainer.help")
    assert "--trainer.limit" in shown
    assert "--model.lr" not in shown


def test_optimizers_are_listed_and_have_pages(users, capsys):
    assert "\n  Adam\n" in helped(users, capsys, "fit", "--optimizer.help")
    assert "--optimizer.lr" in helped(users, capsys, "fit", "--optimizer.help", "Adam")


def test_commands_are_listed(users, capsys):
    assert "  validate" in helped(users, capsys, "--help")


def test_a_page_says_everything_or_a_line_of_each():
    rows = [Row("--a", "int", "long " * 40), Row("--b", "", "rare", common=False)]
    first, whole = (page("x", "", rows, everything=everything).splitlines() for everything in (False, True))
    assert [line for line in first if "--" in line] == [line for line in first if "long" in line]
    assert whole[-1].split() == ["--b", "rare"]
    assert "(int)" in " ".join(whole)


def test_markup_and_modules_are_left_out():
    assert plain("see :meth:`~a.b.fit`, ``x``") == "see a.b.fit, x"
    assert short_type("typing.Union[a.b.Logger, str, list[a.b.Logger | str], NoneType]") == (
        "Logger | str | list[Logger | str]"
    )


def test_a_request_for_help_is_only_what_asks_for_it():
    assert plugin_page([]) == plugin_page(["--trainer.callbacks.help", "Timer"]) == plugin_page(["--x", "1"]) == ""


def test_the_arguments_that_take_names_are_those_of_lt_core():
    assert GROUPS_OF == OF_ARGUMENT


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("plot", "--smoo", "0.9"), "there is no argument '--smoo'. Did you mean '--smooth'? [LT667]"),
        (("ckpt", "show", "x", "--wieghts"), "Did you mean '--weights'?"),
        (("ckpt", "sho", "x"), "received 'sho'. Did you mean 'show'? [LT668]"),
        (("new", "strategy", "x", "--int", "."), "Did you mean '--into'?"),
        (("env", "--js"), "Did you mean '--json'?"),
        (("plugins", "--chec"), "Did you mean '--check'?"),
    ],
)
def test_a_name_that_is_cut_off_is_an_error(words, said, capsys):
    with pytest.raises(SystemExit) as end:
        main(words)
    assert end.value.code == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh", "tcsh"])
def test_completion_knows_the_arguments_of_every_command(shell, capsys):
    assert main(["completion", shell]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in ("smooth", "weights", "into", "strategy"))


def test_a_shell_completes_by_the_script(tmp_path):
    script = tmp_path / "lt.bash"
    asked = [sys.executable, "-m", "lt_cli.main", "completion", "bash"]
    script.write_text(processes.run(asked, capture_output=True, text=True, check=True).stdout)
    for words, offered in {
        "lt ckpt con": ["convert"],
        "lt completion ba": ["bash"],
        "lt plot --sm": ["--smooth"],
        "lt completion = ba": ["bash"],  # bash's own words of completion=ba
        "lt completion =": ["bash", "zsh", "tcsh"],
    }.items():
        last = len(words.split()) - 1
        line = (
            f". {script}; COMP_WORDS=({words}); COMP_CWORD={last}; "
            "$(complete -p lt | sed 's/.*-F //; s/ .*//'); echo ${COMPREPLY[*]}"
        )
        shown = processes.run(["bash", "-c", line], capture_output=True, text=True, check=True).stdout
        assert shown.split() == offered, words


START = """
PROMPT=; unsetopt beep zle_bracketed_paste; fpath=($PWD $fpath); autoload -Uz compinit; compinit -u -D
line() { print -r -- "<<$BUFFER>>" }; zle -N line; bindkey '^X' line; print rea''dy
"""


def zsh_completes(folder, typed):
    """Return what an interactive zsh in a terminal makes of a typed line after a tab."""
    terminal, end = os.openpty()
    streams = {"stdin": end, "stdout": end, "stderr": end}
    shell = processes.Popen(["zsh", "-f", "-i"], cwd=folder, env={**os.environ, "TERM": "dumb"}, **streams)
    os.close(end)

    def shown_until(mark):
        seen = b""
        while mark not in seen:
            seen += os.read(terminal, 4096)
        return seen.decode()

    try:
        os.write(terminal, START.encode())
        shown_until(b"ready\r\n")
        os.write(terminal, f"{typed}\t\x18".encode())
        return shown_until(b">>").rpartition("<<")[2].partition(">>")[0]
    finally:
        shell.kill()
        shell.wait()
        os.close(terminal)


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
@pytest.mark.parametrize(
    ("typed", "completed"),
    [
        ("lt ckpt con", "lt ckpt convert "),
        ("lt completion ba", "lt completion bash "),
        ("lt plot --sm", "lt plot --smooth="),
        ("lt plot --x=a --out=cur", "lt plot --x=a --out=curves.csv "),
        ("lt plot --out cur", "lt plot --out curves.csv "),
        ("lt plot cur", "lt plot curves.csv "),
        ("lt ckpt show cur", "lt ckpt show curves.csv "),
    ],
)
def test_zsh_completes_by_the_script(typed, completed, tmp_path, capsys):
    assert main(["completion", "zsh"]) == 0
    (tmp_path / "_lt").write_text(capsys.readouterr().out)
    (tmp_path / "curves.csv").touch()
    assert zsh_completes(tmp_path, typed) == completed


def test_zshs_script_takes_values_by_equals_and_files_where_nothing_else_is_known(capsys):
    assert main(["completion", "zsh"]) == 0
    specs = [line for line in capsys.readouterr().out.splitlines() if line.startswith(("  {", '  "'))]
    valued = [spec for spec in specs if "]:" in spec]
    assert valued
    assert not [spec for spec in valued if "--" in spec and "=[" not in spec and '=}"[' not in spec]
    assert not [spec for spec in specs if spec.endswith(':"')]


def test_help_of_simulate_names_simulate(capsys):
    from lt_cli.commands.fit import main as fit
    from lt_cli.commands.fit import simulate

    if fit(["fit", "--help"]) != 0 or not capsys.readouterr().out:
        pytest.skip("no Trainer is installed whose arguments could be shown")
    assert simulate(["--help"]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith("usage: lt simulate ")
    assert "lt fit" not in shown
