"""Arguments that a logger takes by ``**kwargs``, and nulls that files of another package's classes hold."""

import pytest

from lt_cli import LightningCLI


@pytest.fixture
def logger(users, write, tmp_path):
    """Return a function that gives words to a command line and returns the arguments that loggers were made with."""
    text = (tmp_path / "users.py").read_text()
    text += """

class Tracker:
    def __init__(self, name: str = "run", project: str | None = None, **kwargs):
        self.given = {"name": name, "project": project, **kwargs}


class Plain:
    def __init__(self, name: str = "run"):
        self.given = {"name": name}


class Logs(Trainer):
    def __init__(
        self,
        *,
        logger: Tracker | Plain | list[Tracker | Plain] | None = None,
        callbacks: Callback | list[Callback] | None = None,
        default_root_dir: str = ".",
    ):
        super().__init__(callbacks=callbacks, default_root_dir=default_root_dir)
        self.logger = logger
"""
    exec(compile(text, "users.py", "exec"), vars(users))

    def given(*words):
        made = LightningCLI(users.Net, trainer_class=users.Logs, args=["fit", *words]).trainer.logger
        return [each.given for each in made] if isinstance(made, list) else made.given

    return given


ALL = {"name": "run", "project": "p", "entity": "team", "tags": ["a", "b"]}
FILE = "trainer: {logger: {class_path: users.Tracker, init_args: {project: p, entity: team, tags: [a, b]}}}\n"
WAYS = {
    "a file": ["--config=a.yaml"],
    "flags": [
        "--trainer.logger=users.Tracker",
        "--trainer.logger.entity=team",
        "--trainer.logger.project=p",
        "--trainer.logger.tags=[a, b]",
    ],
    "flags in two words": [
        "--trainer.logger",
        "users.Tracker",
        "--trainer.logger.entity",
        "team",
        "--trainer.logger.project",
        "p",
        "--trainer.logger.tags",
        "[a, b]",
    ],
    "flags over a file": ["--config=b.yaml", "--trainer.logger.init_args.entity=team", "--trainer.logger.tags=[a, b]"],
    "one word": ["--trainer.logger={class_path: users.Tracker, init_args: {project: p, entity: team, tags: [a, b]}}"],
    "dict_kwargs": ["--config=c.yaml"],
}


@pytest.mark.parametrize("words", WAYS.values(), ids=WAYS.keys())
def test_a_logger_gets_what_it_takes_by_kwargs(words, logger, write):
    write("a.yaml", FILE)
    write("b.yaml", "trainer: {logger: {class_path: users.Tracker, init_args: {project: p, entity: other}}}")
    write(
        "c.yaml",
        "trainer: {logger: {class_path: users.Tracker, init_args: {project: p, tags: [a, b]}, "
        "dict_kwargs: {entity: team}}}",
    )
    assert logger(*words) == ALL


def test_each_of_several_loggers_gets_its_own(logger):
    several = ["users.Tracker", "users.Plain"]
    first = ["--trainer.logger.entity=team", "--trainer.logger.project=p", "--trainer.logger.tags=[a, b]"]
    words = [f"--trainer.logger+={several[0]}", *first, f"--trainer.logger+={several[1]}", "--trainer.logger.name=x"]
    assert logger(*words) == [ALL, {"name": "x"}]


def test_the_configuration_that_a_run_saved_repeats_it(logger, write, tmp_path):
    write("a.yaml", FILE)
    logger("--config=a.yaml")
    assert logger("--config", str(tmp_path / "config.yaml")) == ALL


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--trainer.logger=users.Tracker", "--trainer.logger.projct=p"], "'projct'. Did you mean 'project'?"),
        (["--trainer.logger=users.Plain", "--trainer.logger.entity=team"], "has no argument 'entity'"),
        (["--trainer.logger={class_path: users.Plain, init_args: {entity: t}}"], "has no argument 'entity'"),
        (["--trainer.logger={class_path: users.Tracker, init_args: {projct: t}}"], "Did you mean 'project'?"),
        (["--trainer.logger={class_path: users.Tracker, init_args: {entity: t, name: [1]}}"], "name: expected str"),
        (
            ["--trainer.logger=users.Tracker", "--trainer.logger.entity=t", "--trainer.logger.name=[1]"],
            "name: expected",
        ),
    ],
)
def test_a_mistake_is_told_all_the_same(words, told, logger, capsys):
    with pytest.raises(SystemExit):
        logger(*words)
    assert told in capsys.readouterr().err


def test_a_null_for_an_argument_that_a_class_has_not_says_nothing(logger, write):
    write("a.yaml", "trainer: {logger: {class_path: users.Plain, init_args: {name: a, agg_default_func: null}}}")
    write("b.yaml", "trainer: {logger: [{class_path: users.Tracker, init_args: {entity: null, resume: null}}]}")
    assert logger("--config=a.yaml") == {"name": "a"}
    assert logger("--config=b.yaml") == [{"name": "run", "project": None}]


@pytest.mark.parametrize("word", ["--config=a.yaml", "--trainer.limit={class_path: bad.Thing, init_args: {a: 1}}"])
def test_a_class_in_an_argument_that_takes_none_is_not_imported(word, users, write, tmp_path, capsys):
    write("bad.py", "import pathlib\npathlib.Path('touched').touch()\n")
    write("a.yaml", "trainer: {limit: {class_path: bad.Thing, init_args: {a: 1}}}")
    with pytest.raises(SystemExit):
        LightningCLI(users.Net, trainer_class=users.Trainer, args=["fit", word])
    assert "trainer.limit: expected" in capsys.readouterr().err
    assert not (tmp_path / "touched").exists()
