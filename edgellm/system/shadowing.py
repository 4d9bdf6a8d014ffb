"""Detects that a user's file shadows a package of edgellm, such as `tui` or `converters`."""

from importlib.util import find_spec
from pathlib import Path

from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path

_ROOT = Path(__file__).resolve().parents[2]


def check_not_shadowed(*names: str) -> None:
    """Raise EdgeLLMError if Python would import another module by one of these names. Imports nothing."""
    for name in names:
        found = _origin(name)
        if found is None:
            raise EdgeLLMError(f"the package {name} of edgellm is missing: install edgellm again")
        if found.resolve() != _ROOT / name / "__init__.py":
            where = f"{shown_path(found)} hides the package {name} of edgellm"
            raise EdgeLLMError(f"{where}: rename it, or keep its folder out of Python's path")


def _origin(name: str) -> Path | None:
    try:
        spec = find_spec(name)
    except ValueError:  # a module in sys.modules that was not imported
        return Path(name)
    return Path(spec.origin) if spec and spec.origin else None
