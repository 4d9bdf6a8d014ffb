"""The command that installs an optional package works for the Python that runs edgellm."""

import re
import shlex
import sys
import tomllib
from importlib.metadata import PackageNotFoundError

import pytest

from edgellm.system import optional_packages
from support import ROOT


@pytest.mark.parametrize("extra", ["gpu", "llama-cpp"])
def test_the_command_has_the_version_that_the_project_needs(extra: str) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (wanted,) = project["optional-dependencies"][extra]
    package = re.split("[<>=]", wanted)[0]
    command = shlex.split(optional_packages.install_command(package))
    assert command == [sys.executable, "-m", "pip", "install", wanted]


def test_without_pip_or_metadata(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise PackageNotFoundError(name)

    monkeypatch.setattr(optional_packages, "find_spec", lambda name: None)
    monkeypatch.setattr(optional_packages, "requires", unknown)
    monkeypatch.setattr(sys, "executable", "/with space/python")
    assert optional_packages.install_command("wgpu") == "uv pip install --python '/with space/python' wgpu"
