"""Import closures: the modules that kernels are made of, with a digest of each module's code.

Only `kquants.compiler.fingerprint` needs them, and only after a source has changed.

The import closure of a module holds the module itself and all modules of `kquants` that it imports, directly or
through others. Imports inside functions count, and so do the packages of a module, as importing the module runs their
`__init__.py`. Calls of `importlib` are not followed; `kquants.compiler.kernels` has the only one.

The code of a module is its syntax tree without string statements: docstrings, and the strings that document variables.
The tree has no comments, no formatting and no line numbers. It has annotations: those of a NamedTuple are its fields.
"""

import ast
import hashlib
from collections.abc import Iterable, Iterator, Mapping

from kquants.compiler.kernel_names import COMPILER

_COMMON = (COMPILER, "kquants.compiler.decorators", "kquants.compiler.host")
"""Modules that every kernel depends on. The compiler imports `decorators` through a module that is _EXCLUDED."""

_EXCLUDED = frozenset({"kquants.jit", "kquants.compiler.kernels", "kquants.compiler.fingerprint"})
"""Modules that no closure holds. They select the kernels to compile and name the files for object code; they do not
change the code."""


def closures(sources: Mapping[str, bytes], modules: Iterable[str]) -> dict[str, dict[str, str]]:
    """The closure of each module, with the modules that every kernel depends on: digests of code by name of module.

    `sources` has the content of every file of `kquants`, by its path from the package on: `kquants/simd/bytes.py`.
    """
    packages = {_module(path) for path in sources if path.endswith("/__init__.py")}
    digests: dict[str, str] = {}
    imported: dict[str, set[str]] = {}
    for path, source in sources.items():
        module = _module(path)
        try:
            tree = ast.parse(source, path)
        except (SyntaxError, ValueError):  # reported when the module is imported, if it is
            tree = ast.Module([ast.Expr(ast.Constant(source))], [])
        digests[module] = hashlib.sha256(ast.dump(_WithoutStrings().visit(tree)).encode()).hexdigest()
        found = _imports(tree, module, module in packages)
        imported[module] = {package for name in found for package in _with_packages(name)} - _EXCLUDED
    reached = {module: _reached(imported, [module, *_COMMON]) for module in modules}
    return {module: {name: digests[name] for name in sorted(names)} for module, names in reached.items()}


def _module(path: str) -> str:
    """The module's name: `kquants.simd` of `kquants/simd/__init__.py`."""
    return path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")


class _WithoutStrings(ast.NodeTransformer):
    """Removes string statements."""

    def visit_Expr(self, node: ast.Expr) -> ast.Expr | None:
        """None for a string statement."""
        return None if isinstance(node.value, ast.Constant) and isinstance(node.value.value, str) else node


def _imports(tree: ast.Module, module: str, is_package: bool) -> Iterator[str]:
    """Names of the modules that a module imports; some may be variables of a module."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            here = module.split(".")[: None if is_package else -1]
            base = here[: len(here) - (node.level - 1)] if node.level else []
            origin = ".".join([*base, *filter(None, [node.module])])
            yield origin
            yield from (f"{origin}.{alias.name}" for alias in node.names)


def _with_packages(name: str) -> Iterator[str]:
    """A module and its packages."""
    parts = name.split(".")
    return (".".join(parts[:count]) for count in range(1, len(parts) + 1))


def _reached(imported: Mapping[str, Iterable[str]], modules: Iterable[str]) -> set[str]:
    """The closure of some modules."""
    reached: set[str] = set()
    waiting = [name for module in modules for name in _with_packages(module)]
    while waiting:
        module = waiting.pop()
        if module in imported and module not in reached:  # not a module of another package, nor a variable
            reached.add(module)
            waiting += imported[module]
    return reached
