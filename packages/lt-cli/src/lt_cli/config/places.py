"""Where the user wrote a key: in which line of which file, on the command line, or in the environment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import yaml

from lt_core.terminal import short_path

_SUFFIXES = (".yaml", ".yml", ".json")
_DEEPEST = 8  # files that name files
_LEVELS = 100  # containers in containers
_MOST = 100_000  # values, with each alias counted as its values
TOO_MUCH = f"aliases (*name) stand for more than {_MOST:,} values"


class Place(NamedTuple):
    """One spot where the user wrote something.

    Attributes:
        where: ``run.yaml:12``, ``command line``, or the name of an environment variable.
        key: the key as it stands there, with dots.
        value: the text there; empty for a nest of values.
    """

    where: str
    key: str
    value: str = ""


class ConfigPlaces:
    """The keys of some words of a command line, of the files they name, and of the environment.

    Args:
        words: a command line.
        environ: environment variables.
        env_prefix: prefix of the variables that count; empty for none.
    """

    def __init__(self, words: Sequence[str], environ: Mapping[str, str] | None = None, env_prefix: str = "") -> None:
        self.words = list(words)
        self.env_prefix = f"{env_prefix}_"
        self.environ = {k: v for k, v in (environ or {}).items() if env_prefix and k.startswith(self.env_prefix)}
        self.files = [*self._files_of_environment(), *config_files(words)]
        self.lines = [place for file in self.files for place in _keys_of_file(Path(file))]

    def find(self, *steps: str, value: str = "") -> Place | None:
        """Return where a key was written: the command line counts over files, files over the environment.

        Args:
            steps: its parts from the outside in, each perhaps with dots; between two of them other keys may stand
                (``"model", "lr"`` finds ``model.init_args.lr``).
            value: the text there; a place with it comes before others.
        """
        wanted = [part for step in steps for part in step.split(".")]
        found = [place for place in self._all() if _holds(place.key.split("."), wanted)]
        return next((place for place in found if value and place.value == value), next(iter(found), None))

    def holds(self, *steps: str) -> bool:
        """Return whether a key, or one inside it, was written anywhere."""
        wanted = [part for step in steps for part in step.split(".")]
        places = [inner for place in self._all() for inner in (place, *_keys_of_text(place))]
        paths = [place.key.split(".") for place in places]
        return any(_holds(path[:end], wanted) for path in paths for end in range(1, len(path) + 1))

    def _all(self) -> Iterator[Place]:
        """Yield every written key, in order of precedence."""
        for word, following in reversed(list(zip(self.words, [*self.words[1:], ""], strict=False))):
            name, equals, value = word.partition("=")
            if word.startswith("--"):
                key = name.removeprefix("--").removesuffix("+")
                yield Place("command line", key, value if equals else following)
        yield from reversed(self.lines)
        for name, value in self.environ.items():
            yield Place(name, name.removeprefix(self.env_prefix).replace("__", ".").lower(), value)

    def _files_of_environment(self) -> list[str]:
        return [value for name, value in self.environ.items() if name.endswith("_CONFIG") and Path(value).is_file()]


def is_readable(file: str) -> bool:
    """Return whether a file is YAML that :func:`composed` takes."""
    try:
        composed(Path(file).read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return False
    return True


def config_files(words: Sequence[str]) -> list[str]:
    """Return the existing files that ``--config`` and ``-c`` name in a command line, in order."""
    found = []
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name in ("--config", "-c"):
            found.append(value if equals else following)
    return [file for file in found if Path(file).is_file()]


def composed(text: str) -> yaml.Node | None:
    """Return the nodes of a YAML text.

    Raises:
        yaml.YAMLError: for another text, and for one whose aliases stand for too many values, or for themselves: a few
            lines could otherwise fill the memory.
    """
    _refuse_nest(text)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None and "*" in text:
        _count(root, {})
    return root


def refuse_bomb(text: str) -> None:
    """Raise the errors of :func:`composed` for texts that take too much memory or stack; others are read as ever."""
    if "&" in text and "*" in text:
        composed(text)
    _refuse_nest(text)


def _refuse_nest(text: str) -> None:
    depth = 0
    for event in yaml.parse(text, Loader=yaml.SafeLoader) if len(text) > 2 * _LEVELS else ():
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        if depth > _LEVELS:
            raise yaml.YAMLError(f"values nest more than {_LEVELS} deep: {event.start_mark}")


def _count(node: yaml.Node, counts: dict[yaml.Node, int]) -> int:
    """Return how many values a node stands for."""
    if node in counts:
        return counts[node]
    counts[node] = _MOST + 1  # until it is known: inside of itself
    parts = node.value if isinstance(node, yaml.SequenceNode) else []
    if isinstance(node, yaml.MappingNode):
        parts = [part for pair in node.value for part in pair]
    elif isinstance(node, yaml.ScalarNode):
        with suppress(yaml.scanner.ScannerError, yaml.parser.ParserError):  # a text may be YAML again
            refuse_bomb(str(node.value))
    counts[node] = 1 + sum(_count(part, counts) for part in parts)
    if counts[node] > _MOST:
        raise yaml.MarkedYAMLError(None, None, TOO_MUCH, node.start_mark)
    return counts[node]


def _keys_of_file(path: Path, prefix: str = "", depth: int = 0) -> Iterator[Place]:
    """Yield every key of a YAML or JSON file with its line; nothing where it cannot be read as such."""
    try:
        root = composed(path.read_text("utf-8"))
    except (OSError, UnicodeDecodeError, yaml.YAMLError):
        return
    yield from _keys_of_node(root, prefix, path, depth)


def _keys_of_text(place: Place) -> Iterator[Place]:
    """Yield the keys of a nest that was written as one word: ``--model '{class_path: ...}'``, ``--model net.yaml``."""
    prefix = "" if place.key in ("config", "c") else place.key
    if place.value.endswith(_SUFFIXES):
        yield from _keys_of_file(Path(place.value), prefix)
    elif place.value.lstrip().startswith("{"):
        with suppress(yaml.YAMLError):
            yield from _keys_of_node(composed(place.value), prefix, Path(), 0)


def _keys_of_node(node: yaml.Node | None, prefix: str, path: Path, depth: int) -> Iterator[Place]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{prefix}.{key.value}" if prefix else str(key.value)
            text = str(value.value) if isinstance(value, yaml.ScalarNode) else ""
            yield Place(f"{short_path(path)}:{key.start_mark.line + 1}", name, text)
            yield from _keys_of_node(value, name, path, depth)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield from _keys_of_node(value, f"{prefix}.{number}", path, depth)
    elif isinstance(node, yaml.ScalarNode) and str(node.value).endswith(_SUFFIXES) and depth < _DEEPEST:
        yield from _keys_of_file(path.parent / str(node.value), prefix, depth + 1)


def _holds(path: Sequence[str], wanted: Sequence[str]) -> bool:
    """Return whether ``wanted`` are the last part of ``path`` and, in order, some of the parts before it.

    A subcommand's name may stand in front of a path.
    """
    if not path or not wanted or path[-1] != wanted[-1]:
        return False
    if path[0] != wanted[0] and path[1:2] != [wanted[0]]:
        return False
    rest = iter(path)
    return all(part in rest for part in wanted)
