"""Lightning's registries of strategies and accelerators: installed ones, and the user's own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import getmembers, isclass
from types import ModuleType
from typing import Any

from lt_core import plugins

__all__ = ["ACCELERATORS", "STRATEGIES", "Registry", "register_classes"]


class Registry(dict[str, dict[str, Any]]):
    """The objects that users registered, by name; asked for a name, also the entries of packages.

    Args:
        group: of entry points: ``"strategies"``.
    """

    def __init__(self, group: str) -> None:
        super().__init__()
        self._group, self._kind = group, {"strategies": "strategy", "accelerators": "accelerator"}[group]

    def register(
        self,
        name: str,
        what: Callable[..., Any] | None = None,
        description: str = "",
        override: bool = False,
        **init_params: Any,
    ) -> Callable[..., Any]:
        """Register a class under ``name``, with arguments for its constructor; without one, return a decorator.

        Raises:
            ValueError: when the name is taken, unless ``override`` is set.
        """
        if not isinstance(name, str):
            raise TypeError(f"`name` must be a str, found {name}")
        if name in self and not override:
            raise ValueError(f"{name!r} is already present in the registry. HINT: Use `override=True`.")

        def put(kind: Callable[..., Any]) -> Callable[..., Any]:
            said = {"description": description, "init_params": init_params}
            self[name] = {**said, self._kind: kind, f"{self._kind}_name": name}
            return kind

        return put if what is None else put(what)

    def get(self, name: str, default: Any = None) -> Any:
        """Return an object of the class registered or installed under ``name``.

        Raises:
            KeyError: where there is neither, and no default.
        """
        if self.of_the_user(name):
            return self[name][self._kind](**self[name]["init_params"])
        if name in self.names:
            return plugins.load(self._group, name)()
        if default is not None:
            return default
        raise KeyError(f"{name!r} not found in registry. Available names: {', '.join(self.names)}")

    def __missing__(self, name: str) -> dict[str, Any]:
        if name not in self.names:
            raise KeyError(name)
        found = {self._kind: plugins.load(self._group, name), f"{self._kind}_name": name}
        return {"description": "", "init_params": {}, **found}

    def remove(self, name: str) -> None:
        """Remove the registration of a name."""
        self.pop(name)

    @property
    def names(self) -> list[str]:
        """All names, of users and of packages."""
        return sorted({*super().keys(), *plugins.names(self._group)})

    def of_the_user(self, name: object) -> bool:
        """Return whether it was registered here, not brought by a package."""
        return super().__contains__(name)

    def available_strategies(self) -> list[str]:
        """Return all names."""
        return self.names

    available_accelerators = available_strategies

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    # a dict's own have the user's names only
    keys, items, values = Mapping.keys, Mapping.items, Mapping.values  # type: ignore[assignment]

    def __len__(self) -> int:
        return len(self.names)

    def __str__(self) -> str:
        return f"Registered {self._group.title()}: {', '.join(self.names)}"

    __repr__ = __str__

    def __contains__(self, name: object) -> bool:
        return super().__contains__(name) or name in plugins.names(self._group)


STRATEGIES = Registry("strategies")
ACCELERATORS = Registry("accelerators")


def register_classes(registry: Registry, method: str, module: ModuleType, parent: type) -> None:
    """Have each subclass of ``parent`` that a module names register itself, by its class method of this name."""
    for _, member in getmembers(module, isclass):
        if issubclass(member, parent) and member is not parent and hasattr(member, method):
            getattr(member, method)(registry)
