"""Optional dependencies, and how to install one into the environment of this process."""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec


def install_command(package: str) -> str:
    """The shell command that installs an optional dependency, in the version that edgellm needs."""
    python, requirement = shlex.quote(sys.executable), shlex.quote(_requirement(package))
    if find_spec("pip") is None:  # environments of uv have no pip
        return f"uv pip install --python {python} {requirement}"
    return f"{python} -m pip install {requirement}"


def _requirement(package: str) -> str:
    """The package with its version specifier, from edgellm's metadata; the name alone if that is not installed."""
    try:
        requirements = [each.partition(";")[0].strip() for each in requires("edgellm") or ()]
    except PackageNotFoundError:
        requirements = []
    return next((each for each in requirements if each.startswith(package)), package)
