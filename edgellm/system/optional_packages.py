"""Packages that edgellm can do without, and how to add one to the environment that it runs in."""

import shlex
import sys
from importlib.metadata import PackageNotFoundError, requires
from importlib.util import find_spec


def install_command(package: str) -> str:
    """The command for a shell that installs a package of one of edgellm's extras, wherever edgellm came from."""
    python, wanted = shlex.quote(sys.executable), shlex.quote(_requirement(package))
    if find_spec("pip") is None:  # uv makes such environments
        return f"uv pip install --python {python} {wanted}"
    return f"{python} -m pip install {wanted}"


def _requirement(package: str) -> str:
    """The package with the versions that edgellm asks for, if it is installed with its metadata."""
    try:
        wanted = [each.partition(";")[0].strip() for each in requires("edgellm") or ()]
    except PackageNotFoundError:
        wanted = []
    return next((each for each in wanted if each.startswith(package)), package)
