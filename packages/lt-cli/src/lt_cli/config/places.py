"""Where the user wrote a key: in which line of which file, on the command line, or in the environment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import yaml
from jsonargparse import get_loader

from lt_core.terminal import short_path

_SUFFIXES = (".yaml", ".yml", ".json")
_DEEPEST = 8  # files that name files
_LEVELS = 100  # containers in containers
_MOST = 100_000  # values, with each alias counted as its values
_OF_CLASS = ("class_path", "init_args", "dict_kwargs")
TOO_MUCH = f"aliases (*name) stand for more than {_MOST:,} values"


class Place(NamedTuple):
    """One spot where the user wrote something.

    Attributes:
        where: ``run.yaml:12``, ``command line``, or the name of an environment variable.
        key: the key as it stands there, with dots.
        value: the text there; empty for a nest of values.
        plain: whether the text is YAML's, as a number is, and no string.
        appends: whether the value is one more of a list: ``--trainer.callbacks+=...``.
    """

    where: str
    key: str
    value: str = ""
    plain: bool = False
    appends: bool = False


class Written:
    """A key that the user wrote, with the keys inside it, all files and words merged.

    Attributes:
        place: the last one of the key itself; of a key inside it where only such were written.
        parts: the keys inside by name, or the items of a list by number.
    """

    def __init__(self, place: Place) -> None:
        self.place, self.parts = place, dict[str, Written]()

    def add(self, place: Place) -> None:
        """Take in what stands at one place, over what stood at an earlier one."""
        here = self
        for name in place.key.split("."):
            if here.is_list and not name.isdecimal():
                here = list(here.parts.values())[-1]
            here = here.parts.setdefault(name, Written(place))
        if place.appends:
            here.parts[str(len(here.parts))] = Written(place)
        elif "class_path" in here.parts and place.value:
            here.parts["class_path"] = Written(place)
        else:
            here.place = place
            if here.is_list:
                here.parts.clear()

    def find(self, names: Sequence[str]) -> Written | None:
        """Return the key with these names from the outside in, between which other keys may stand."""
        if not names:
            return self
        part = self.parts.get(names[0])
        if part is not None and (found := part.find(names[1:])) is not None:
            return found
        return next((found for each in self.parts.values() if (found := each.find(names)) is not None), None)

    @property
    def at(self) -> str:
        """The place, to begin a complaint."""
        return f"{self.place.where}: {self.place.key}: "

    @property
    def is_list(self) -> bool:
        return bool(self.parts) and all(name.isdecimal() for name in self.parts)

    @property
    def class_path(self) -> str:
        """The name of a class, if it is one's; otherwise whatever text stands there."""
        return (self.parts.get("class_path") or self).place.value

    @property
    def arguments(self) -> Written:
        """The arguments of that class, written below ``init_args`` or, on a command line, directly."""
        found = Written(self.place)
        for parts in (self.parts, getattr(self.parts.get("init_args"), "parts", {})):
            found.parts |= {name: part for name, part in parts.items() if name not in _OF_CLASS}
        return found

    @property
    def data(self) -> Any:
        """What jsonargparse gets for it."""
        if self.is_list:
            return [part.data for part in self.parts.values()]
        if not self.parts:
            return get_loader("yaml")(self.place.value) if self.place.plain else self.place.value
        given = {name: part.data for name, part in self.parts.items() if name in _OF_CLASS}
        arguments = {name: part.data for name, part in self.arguments.parts.items()}
        if self.class_path:
            return {"class_path": self.class_path, **given, "init_args": arguments}
        return arguments


class ConfigPlaces:
    """The keys of some words of a command line, of the files they name, and of the environment.

    Args:
        words: a command line.
        environ: environment variables.
        env_prefix: prefix of the variables that count; empty for none.
        given: a configuration in place of words.
    """

    def __init__(
        self,
        words: Sequence[str],
        environ: Mapping[str, str] | None = None,
        env_prefix: str = "",
        given: Mapping[str, Any] | None = None,
    ) -> None:
        self.words, self.given = list(words), given or {}
        self.env_prefix = f"{env_prefix}_"
        self.environ = {k: v for k, v in (environ or {}).items() if env_prefix and k.startswith(self.env_prefix)}
        self.files = [*self._files_of_environment(), *config_files(words)]

    def find(self, *steps: str) -> Place | None:
        """Return where a key was written: the command line counts over files, files over the environment.

        Args:
            steps: its parts from the outside in, each perhaps with dots; between two of them other keys may stand
                (``"model", "lr"`` finds ``model.init_args.lr``).
        """
        found = self.tree().find([part for step in steps for part in step.split(".")])
        return None if found is None else found.place

    def tree(self) -> Written:
        """Return all that was written, as one nest."""
        root = Written(Place("", ""))
        for place in self._all():
            for each in (place, *_keys_of_text(place)):
                root.add(each)
        return root

    def _all(self) -> Iterator[Place]:
        """Yield every written key; a later one counts over those before it."""
        for name, value in self.environ.items():
            yield Place(name, name.removeprefix(self.env_prefix).replace("__", ".").lower(), value)
        for file in self._files_of_environment():
            yield from _keys_of_file(Path(file))
        for name, value in options(self.words):
            yield Place("command line", name.lstrip("-").removesuffix("+"), value, appends=name.endswith("+"))
        yield from _keys_of_data(self.given, "")

    def _files_of_environment(self) -> list[str]:
        return [value for name, value in self.environ.items() if name.endswith("_CONFIG") and Path(value).is_file()]


def unreadable(files: Iterable[str]) -> tuple[str, yaml.YAMLError] | None:
    """Return the first file that is no YAML of plain data, with the error; files that a file names count too."""
    for file in files:
        path = Path(file)
        try:
            text = path.read_text("utf-8")
            root = composed(text)
            yaml.safe_load(text)
        except yaml.YAMLError as error:
            return short_path(path), error
        except (OSError, UnicodeDecodeError):
            continue
        named = [str(path.parent / name) for name in _files_in(root)]
        if found := unreadable(named):
            return found
    return None


def _files_in(node: yaml.Node | None) -> Iterator[str]:
    """Yield the texts that are names of files."""
    if isinstance(node, yaml.ScalarNode) and str(node.value).endswith(_SUFFIXES):
        yield str(node.value)
    for part in node.value if isinstance(node, yaml.CollectionNode) else ():
        for each in part if isinstance(part, tuple) else (part,):
            yield from _files_in(each)


def config_files(words: Sequence[str]) -> list[str]:
    """Return the existing files that ``--config`` and ``-c`` name in a command line, in order."""
    return [value for name, value in options(words) if name in ("--config", "-c") and Path(value).is_file()]


def options(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Yield the options of a command line with their values, in one word or in two."""
    for word, following in zip(words, [*words[1:], ""], strict=False):
        name, equals, value = word.partition("=")
        if name.startswith("-"):
            yield name, value if equals else "" if following.startswith("--") else following


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
    elif place.value.lstrip().startswith(("{", "[")):
        with suppress(yaml.YAMLError):
            yield from _keys_of_node(composed(place.value), prefix, Path(), 0)


def _keys_of_data(data: Any, prefix: str) -> Iterator[Place]:
    """Yield the keys of plain data that code gives."""
    if isinstance(data, Mapping | list):
        for name, part in data.items() if isinstance(data, Mapping) else enumerate(data):
            yield from _keys_of_data(part, f"{prefix}.{name}".lstrip("."))
    elif isinstance(data, str | int | float | None):
        yield Place("args", prefix, "null" if data is None else str(data), plain=not isinstance(data, str))


def _keys_of_node(node: yaml.Node | None, prefix: str, path: Path, depth: int) -> Iterator[Place]:
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            name = f"{prefix}.{key.value}" if prefix else str(key.value)
            yield _place(path, key, name, value)
            yield from _keys_of_node(value, name, path, depth)
    elif isinstance(node, yaml.SequenceNode):
        for number, value in enumerate(node.value):
            yield _place(path, value, f"{prefix}.{number}", value)
            yield from _keys_of_node(value, f"{prefix}.{number}", path, depth)
    elif isinstance(node, yaml.ScalarNode) and str(node.value).endswith(_SUFFIXES) and depth < _DEEPEST:
        yield from _keys_of_file(path.parent / str(node.value), prefix, depth + 1)


def _place(path: Path, at: yaml.Node, key: str, value: yaml.Node) -> Place:
    text = str(value.value) if isinstance(value, yaml.ScalarNode) else ""
    plain = not getattr(value, "style", None) and bool(text or value.tag.endswith(":null"))
    return Place(f"{short_path(path)}:{at.start_mark.line + 1}", key, text, plain)
