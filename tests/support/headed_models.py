"""Models whose replies a head drafts, one of each kind."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from edgellm import Model
from support.archs import ArchFixture
from support.certain_heads import write_certain_head
from support.gemma_assistants import write_assistant
from support.heads import with_random_head

CTX = 128
HEADED = {"mtp": "glm4_5_air", "mtp-recurrent": "qwen3_5", "eagle": "", "assistant": "gemma4_e2b"}
"""The kinds, and the names of their fixtures."""


@contextmanager
def opened_headed(kind: str, folder: Path, request: pytest.FixtureRequest) -> Iterator[Model]:
    """A model with a head, and a context of CTX tokens."""
    draft = "auto"
    if kind == "eagle":
        target, head, _ = write_certain_head(folder)
        draft = str(head)
    elif kind == "assistant":
        target = ArchFixture.of(request.getfixturevalue("shared"), HEADED[kind]).gguf
        draft = str(write_assistant(folder / "assistant.gguf"))
    else:
        target = with_random_head(request.getfixturevalue("family_file")(HEADED[kind]), folder / "random.gguf")
    with Model.open(target, threads=2, draft=draft, ctx=CTX) as model:
        yield model
