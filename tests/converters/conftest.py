"""Fixtures: checkpoints of the families, and what `describe` gives for them when their configuration is changed."""

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from converters.tensors import Metadata, Source
from support.described_checkpoint import Described, with_config
from support.families import CASES
from support.families.checkpoint import write_family_checkpoint
from support.families.references import load_reference


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The checkpoint of a case, written once."""
    made: dict[str, Path] = {}

    def folder(name: str) -> Path:
        if name not in made:
            path = tmp_path_factory.mktemp(name) / "model"
            made[name] = write_family_checkpoint(path, CASES[name], load_reference(name).tensors)
        return made[name]

    return folder


@pytest.fixture
def described(folders: Callable[[str], Path]) -> Described:
    """What `describe` gives for a case whose text configuration is changed; a value of ... is taken out."""

    def of(name: str, **changes: Any) -> tuple[Metadata, list[Source]]:
        config = copy.deepcopy(CASES[name].config)
        text = config.get("text_config", config)
        text.update(changes)
        for key in [key for key, value in changes.items() if value is ...]:
            del text[key]
        return with_config(folders(name), config)

    return of
