"""Fixtures of the engine's tests."""

from pathlib import Path

import pytest

from edgellm.arch import describe
from edgellm.arch.description import Description
from edgellm.gguf import GGUFFile
from support.gemma_families import Described, Keys
from support.gemma_files import Shapes, write_shapes


@pytest.fixture
def described(tmp_path: Path) -> Described:
    """`described(arch, keys, shapes, values)`: the description of such a file."""

    def read(arch: str, keys: Keys, shapes: Shapes, values: Keys | None = None) -> Description:
        with GGUFFile.open(write_shapes(tmp_path / "m.gguf", arch, keys, shapes, values or {})) as file:
            return describe(file)

    return read
