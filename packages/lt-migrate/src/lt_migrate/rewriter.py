"""Python source with Lightning's names and spellings, rewritten for lt by libcst: comments and layout stay."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

import libcst as cst
from libcst.metadata import MetadataWrapper, PositionProvider

from lt_compat.names.counterparts import ROOTS, Counterpart, counterpart, module_in_lt, path_below_root, why_gone
from lt_compat.names.trainer_parts import TRAINER_PARTS
from lt_migrate.old_spellings import ADVICE, HOOKS, LEFT_HOOKS, Left, new_arguments

_COMMA = cst.Comma(whitespace_after=cst.SimpleWhitespace(" "))
_PACKAGE = re.compile(r"(pytorch[-_]lightning|lightning\.pytorch|lightning_fabric)([.\[<>=~!].*)?", re.DOTALL)
_TOP = frozenset(root.partition(".")[0] for root in ROOTS)
_UTILITIES = "lightning_utilities"


def rewrite(text: str) -> tuple[str, list[Left]]:
    """Return source in the words of lt, and notes on the places to look at.

    Raises:
        SyntaxError: for invalid Python.
    """
    try:
        module = cst.parse_module(text)
    except cst.ParserSyntaxError as error:
        raise SyntaxError(error.message, ("", error.raw_line, error.raw_column, "", None, None)) from error
    wrapper = MetadataWrapper(module)
    aliases = _Aliases()
    wrapper.module.visit(aliases)
    if not aliases.uses_lightning:
        return text, []
    rewriter = _Rewriter(aliases.found)
    new = wrapper.visit(rewriter)
    return new.code, sorted(set(rewriter.left))


class _Aliases(cst.CSTVisitor):
    """Finds by which names a module calls Lightning's packages."""

    def __init__(self) -> None:
        self.found: dict[str, str] = {}
        self.uses_lightning = False

    def visit_Import(self, node: cst.Import) -> None:
        for alias in node.names:
            name = _dotted(alias.name)
            self.uses_lightning |= name.partition(".")[0] in (*_TOP, _UTILITIES)
            if name.partition(".")[0] not in _TOP:
                continue
            if alias.asname is not None:
                self.found[_text(alias.asname.name)] = name
            else:
                self.found[name.partition(".")[0]] = name.partition(".")[0]

    def visit_ImportFrom(self, node: cst.ImportFrom) -> None:
        top = "" if node.module is None or node.relative else _dotted(node.module).partition(".")[0]
        self.uses_lightning |= top in (*_TOP, _UTILITIES)
        if node.module is None or top not in _TOP:
            return
        if isinstance(node.names, cst.ImportStar):
            return
        for alias in node.names:
            whole = f"{_dotted(node.module)}.{_text(alias.name)}"
            self.found[_text(alias.asname.name if alias.asname else alias.name)] = whole


class _Rewriter(cst.CSTTransformer):
    """Rewrites imports, attributes, the Trainer's arguments and hooks."""

    METADATA_DEPENDENCIES = (PositionProvider,)

    def __init__(self, aliases: Mapping[str, str]) -> None:
        super().__init__()
        self.aliases = aliases
        self.left: list[Left] = []

    # ---- imports -----------------------------------------------------------------------------------------------------

    def visit_Import(self, node: cst.Import) -> bool:
        return False  # its names are rewritten as a whole

    def visit_ImportFrom(self, node: cst.ImportFrom) -> bool:
        return False

    def leave_SimpleStatementLine(
        self, original_node: cst.SimpleStatementLine, updated_node: cst.SimpleStatementLine
    ) -> cst.SimpleStatementLine | cst.FlattenSentinel[cst.SimpleStatementLine]:
        lines: list[cst.SimpleStatementLine] = []
        for part in updated_node.body:
            parts: Sequence[cst.BaseSmallStatement] = [part]
            if isinstance(part, cst.ImportFrom):
                parts = self._import_from(original_node, part)
            elif isinstance(part, cst.Import):
                parts = self._import(original_node, part)
            lines += [updated_node.with_changes(body=[piece]) for piece in parts]
        if len(updated_node.body) > 1:  # statements with ; between: one line, unless one of them became several
            if len(lines) == len(updated_node.body):
                return updated_node.with_changes(body=[line.body[0] for line in lines])
        if len(lines) == 1:
            return lines[0]
        first, *more = lines
        plain = [line.with_changes(leading_lines=[]) for line in more]
        return cst.FlattenSentinel([first, *plain])

    def _import_from(self, place: cst.CSTNode, node: cst.ImportFrom) -> list[cst.BaseSmallStatement]:
        if node.relative or node.module is None:
            return [node]
        below = path_below_root(_dotted(node.module))
        if _dotted(node.module) == f"{_UTILITIES}.core.rank_zero":
            below = "utilities.rank_zero"
        elif below is None:
            self._leave_utilities(place, _dotted(node.module))
            return [node]
        if isinstance(node.names, cst.ImportStar):
            target = module_in_lt(below)
            if target is None:
                self._leave(place, f"from {_dotted(node.module)} import *", "lt has no such module")
            return [node.with_changes(module=_name(target))] if target else [node]
        by_module: dict[str, list[cst.ImportAlias]] = {}
        kept: list[cst.ImportAlias] = []
        for alias in node.names:
            name = _text(alias.name)
            found = counterpart(below, name)
            if found is None and below == "" and name == "pytorch":
                found = Counterpart("lt", "")
            if found is None:
                advice = why_gone(below, name) or "lt has nothing of this name; the import stays as it is"
                self._leave(place, f"{_dotted(node.module)}.{name}", advice)
                kept.append(alias)
                continue
            module, new = (found.module, found.name) if found.name else _split(found.module)
            by_module.setdefault(module, []).append(_alias(new, name, alias))
        statements: list[cst.BaseSmallStatement] = [
            _from(node, module, aliases) for module, aliases in by_module.items()
        ]
        if kept:
            statements.append(_from(node, _dotted(node.module), kept))
        return statements

    def _import(self, place: cst.CSTNode, node: cst.Import) -> list[cst.BaseSmallStatement]:
        names = [self._import_alias(place, alias) for alias in node.names]
        unique = list(
            {
                _dotted(alias.name) + (_text(alias.asname.name) if alias.asname else ""): alias for alias in names
            }.values()
        )
        unique[-1] = unique[-1].with_changes(comma=cst.MaybeSentinel.DEFAULT)
        return [node.with_changes(names=unique)]

    def _import_alias(self, place: cst.CSTNode, alias: cst.ImportAlias) -> cst.ImportAlias:
        name = _dotted(alias.name)
        below = path_below_root(name)
        if below is None:
            self._leave_utilities(place, name)
            return alias
        target = module_in_lt(below)
        if target is None:
            advice = why_gone(*_split_path(below)) or "lt has no such module; the import stays as it is"
            self._leave(place, name, advice)
            return alias
        return alias.with_changes(name=_name(target))

    def _leave_utilities(self, place: cst.CSTNode, module: str) -> None:
        if module.partition(".")[0] == _UTILITIES:
            self._leave(place, module, ADVICE[_UTILITIES])

    # ---- attributes: pl.callbacks.EarlyStopping ----------------------------------------------------------------------

    def visit_Attribute(self, node: cst.Attribute) -> bool:
        chain = _chain(node)
        if node.attr.value in TRAINER_PARTS and _text(node.value).endswith("trainer"):
            self._leave(node, _text(node), TRAINER_PARTS[node.attr.value])
        return chain is None or chain[0] not in self.aliases  # a chain of names is rewritten as a whole

    def leave_Attribute(self, original_node: cst.Attribute, updated_node: cst.Attribute) -> cst.BaseExpression:
        chain = _chain(original_node)
        if chain is None or not _is_module_path(self.aliases.get(chain[0], "")):
            return updated_node
        rewritten = self._rewritten(original_node, chain)
        return updated_node if rewritten is None else cst.parse_expression(rewritten)

    def _rewritten(self, place: cst.CSTNode, chain: list[str]) -> str | None:
        """Follow names from a module inwards to the first that is no module; return the whole in the words of lt."""
        path = self.aliases[chain[0]]
        home = module_in_lt(path_below_root(path) or "") or "lt"
        root = "lt" if chain[0] in _TOP else chain[0]
        target = home
        for number, name in enumerate(chain[1:], 1):
            path = f"{path}.{name}"
            below = path_below_root(path)
            if below == "":  # L.pytorch is lt as L is
                continue
            found = counterpart(path_below_root(path.rpartition(".")[0]) or "", name)
            if found is None:
                advice = why_gone(path_below_root(path.rpartition(".")[0]) or "", name) or "lt has nothing of this name"
                self._leave(place, ".".join(chain[: number + 1]), advice)
                return None
            target = f"{found.module}.{found.name}" if found.name else found.module
            if found.name:
                return self._below_alias(place, chain, root, home, [target, *chain[number + 1 :]])
        return self._below_alias(place, chain, root, home, [target])

    def _below_alias(self, place: cst.CSTNode, chain: list[str], root: str, home: str, target: list[str]) -> str | None:
        """Return a name of lt as seen from the module's own name for ``home``."""
        whole = ".".join(target)
        if whole == home or whole.startswith(f"{home}."):
            return root + whole.removeprefix(home)
        self._leave(place, ".".join(chain), f"it is {whole} in lt: import it from there")
        return None

    # ---- the Trainer's arguments -------------------------------------------------------------------------------------

    def leave_Call(self, original_node: cst.Call, updated_node: cst.Call) -> cst.Call:
        chain = _chain(original_node.func) if isinstance(original_node.func, cst.Attribute | cst.Name) else None
        if chain is None:
            return updated_node
        whole = ".".join([self.aliases.get(chain[0], chain[0]), *chain[1:]])
        below = path_below_root(whole.rpartition(".")[0])
        if chain[-1] in ("from_argparse_args", "add_argparse_args") and len(chain) > 1 and chain[-2] == "Trainer":
            self._leave(original_node, ".".join(chain), ADVICE[chain[-1]])
        if chain[-1] != "Trainer" or below is None:
            return updated_node
        return self._trainer(original_node, updated_node)

    def _trainer(self, place: cst.Call, call: cst.Call) -> cst.Call:
        named = {argument.keyword.value: argument for argument in call.args if argument.keyword is not None}
        texts = {name: _text(argument.value) for name, argument in named.items()}
        new, advice = new_arguments(texts)
        for name, text in advice.items():
            self._leave(place, f"Trainer({name}={texts[name]})", text)
        if all(new[name] == {name: text} for name, text in texts.items()):
            return call
        arguments: list[cst.Arg] = []
        for argument in call.args:
            if argument.keyword is None:
                arguments.append(argument)
            else:
                arguments += _arguments(argument, new[argument.keyword.value])
        return call.with_changes(args=_with_commas(arguments, call.args[-1]))

    # ---- hooks -------------------------------------------------------------------------------------------------------

    def leave_ClassDef(self, original_node: cst.ClassDef, updated_node: cst.ClassDef) -> cst.ClassDef:
        if not isinstance(updated_node.body, cst.IndentedBlock):
            return updated_node
        body = [self._hook(old, new) for old, new in zip(original_node.body.body, updated_node.body.body, strict=False)]
        if len(body) != len(updated_node.body.body):
            return updated_node
        return updated_node.with_changes(body=updated_node.body.with_changes(body=body))

    def _hook(self, old: cst.CSTNode, new: cst.BaseStatement) -> cst.BaseStatement:
        if not isinstance(new, cst.FunctionDef):
            return new
        name = new.name.value
        if name in LEFT_HOOKS:
            self._leave(old, f"def {name}", LEFT_HOOKS[name])
        if name not in HOOKS:
            return new
        self._leave(old, f"def {name}", f"it is {HOOKS[name]} now: look at its arguments")
        return new.with_changes(name=cst.Name(HOOKS[name]))

    def visit_Assign(self, node: cst.Assign) -> None:
        for target in node.targets:
            if isinstance(target.target, cst.Attribute) and _chain(target.target) == ["self", "hparams"]:
                self._leave(node, "self.hparams = ...", ADVICE["hparams_assignment"])

    def visit_SimpleString(self, node: cst.SimpleString) -> None:
        if _PACKAGE.fullmatch(str(node.evaluated_value)):
            self._leave(node, node.value, "a name in a string: change it where it is meant for Python")

    def _leave(self, node: cst.CSTNode, what: str, advice: str) -> None:
        position = self.get_metadata(PositionProvider, node)
        self.left.append(Left(position.start.line, what, advice))


# ---- pieces of source ------------------------------------------------------------------------------------------------


def _text(node: cst.CSTNode) -> str:
    return cst.Module([]).code_for_node(node).strip()


def _dotted(node: cst.BaseExpression) -> str:
    return ".".join(_chain(node) or [_text(node)])


def _chain(node: cst.CSTNode) -> list[str] | None:
    """Return the names of ``a.b.c``, or None where the expression is anything else."""
    if isinstance(node, cst.Name):
        return [node.value]
    if isinstance(node, cst.Attribute):
        before = _chain(node.value)
        return None if before is None else [*before, node.attr.value]
    return None


def _name(dotted: str) -> cst.Attribute | cst.Name:
    expression = cst.parse_expression(dotted)
    assert isinstance(expression, cst.Attribute | cst.Name)
    return expression


def _from(node: cst.ImportFrom, module: str, aliases: Sequence[cst.ImportAlias]) -> cst.ImportFrom:
    ending = cst.MaybeSentinel.DEFAULT if isinstance(node.names, cst.ImportStar) else node.names[-1].comma
    between = [alias.with_changes(comma=_comma(alias)) for alias in aliases[:-1]]
    return node.with_changes(module=_name(module), names=[*between, aliases[-1].with_changes(comma=ending)])


def _alias(new: str, old: str, alias: cst.ImportAlias) -> cst.ImportAlias:
    """Return the import of ``new`` under the name by which the module calls it already."""
    called = _text(alias.asname.name) if alias.asname else old
    asname = alias.asname or (cst.AsName(name=cst.Name(called)) if called != new else None)
    if alias.asname and called == new:
        asname = None
    return alias.with_changes(name=cst.Name(new), asname=asname)


def _arguments(old: cst.Arg, new: Mapping[str, str]) -> list[cst.Arg]:
    """Return the replacement of an argument; its own comma, with the line's end, comes after the last."""
    made = [old.with_changes(keyword=cst.Name(name), value=_value(old, text)) for name, text in new.items()]
    return [*(argument.with_changes(comma=_COMMA) for argument in made[:-1]), *made[-1:]]


def _value(old: cst.Arg, text: str) -> cst.BaseExpression:
    return old.value if _text(old.value) == text else cst.parse_expression(text)


def _comma(node: cst.Arg | cst.ImportAlias) -> cst.Comma:
    return node.comma if isinstance(node.comma, cst.Comma) else _COMMA


def _with_commas(arguments: Sequence[cst.Arg], last: cst.Arg) -> list[cst.Arg]:
    """Return arguments with a comma after each but the last, which ends as the last one did before."""
    ended = [argument.with_changes(comma=_comma(argument)) for argument in arguments[:-1]]
    return [*ended, *(argument.with_changes(comma=last.comma) for argument in arguments[-1:])]


# ---- modules ---------------------------------------------------------------------------------------------------------


def _split(module: str) -> tuple[str, str]:
    """Return package and last part of a module's name."""
    package, _, name = module.rpartition(".")
    return (package, name) if package else (name, "")


def _split_path(below: str) -> tuple[str, str]:
    path, _, name = below.rpartition(".")
    return path, name


def _is_module_path(known: str) -> bool:
    """Return whether an imported thing is a module of Lightning rather than a class from it."""
    below = path_below_root(known)
    return below is not None and (below == "" or known in ROOTS or module_in_lt(below) is not None)
