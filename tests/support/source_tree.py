"""The modules of the project as syntax trees: nothing is imported, so that all of them can be read in a moment."""

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from support import ROOT

TOP_LEVEL = ("edgellm", "kquants", "converters", "tui")


def modules() -> Iterator[Path]:
    """The modules of the four packages."""
    for name in TOP_LEVEL:
        yield from sorted((ROOT / name).rglob("*.py"))


def packages() -> Iterator[str]:
    """The dotted names of all packages."""
    for path in modules():
        if path.name == "__init__.py":
            yield ".".join(path.parent.relative_to(ROOT).parts)


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    """The classes that are not defined inside another one."""
    for path in modules():
        yield from ((path, node) for node in tree(path).body if isinstance(node, ast.ClassDef))


def defines(path: Path, name: str) -> bool:
    """Whether a module defines or imports a name, such as `Model` or `Model.open`."""
    first, _, rest = name.partition(".")
    if not rest:
        return first in _names(tree(path).body)
    return any(isinstance(n, ast.ClassDef) and n.name == first and rest in _names(n.body) for n in tree(path).body)


def exists(dotted: str) -> bool:
    """Whether a dotted name is a module, a package, or a name that one of them has."""
    parts = dotted.split(".")
    for size in range(len(parts), 0, -1):
        folder = ROOT.joinpath(*parts[:size])
        for path in (folder.with_suffix(".py"), folder / "__init__.py"):
            if path.is_file():
                return size == len(parts) or defines(path, ".".join(parts[size:]))
    return False


def _names(body: list[ast.stmt]) -> set[str]:
    found: set[str] = set()
    for node in body:
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                found.add(name)
            case ast.Assign(targets=targets):
                found |= {n.id for target in targets for n in ast.walk(target) if isinstance(n, ast.Name)}
                found |= {n.attr for target in targets for n in ast.walk(target) if isinstance(n, ast.Attribute)}
            case ast.AnnAssign(target=ast.Name(id=name)):
                found.add(name)
            case ast.Import(names=aliases) | ast.ImportFrom(names=aliases):
                found |= {alias.asname or alias.name for alias in aliases}
            case ast.If(body=inner):
                found |= _names(inner)
    return found
