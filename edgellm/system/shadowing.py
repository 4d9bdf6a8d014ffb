"""The packages beside `edgellm`, whose names are common enough for files of a user to have them, too."""

from importlib.util import find_spec
from pathlib import Path

from edgellm.errors import EdgeLLMError

_ROOT = Path(__file__).resolve().parents[2]


def check_not_shadowed(*names: str) -> None:
    """Raises EdgeLLMError if Python finds something else by one of these names. Runs nothing of it."""
    for name in names:
        found = _origin(name)
        if found is None:
            raise EdgeLLMError(f"the package {name} of edgellm is missing: install edgellm anew")
        if found.resolve() != _ROOT / name / "__init__.py":
            from edgellm.fmt import printable  # brings numpy

            where = f"{printable(str(found), 400)} hides the package {name} of edgellm"
            raise EdgeLLMError(f"{where}: rename it, or keep its folder out of Python's path")


def _origin(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except ValueError:  # a module that was made by hand
        return Path(name)
    return Path(spec.origin) if spec and spec.origin else None
