"""A small model whose chats have calls as Hermes has them, and a server of it, for tests with clients."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from edgellm import Model
from support.model_file import ModelFile
from support.served import Served, served
from support.tool_templates import TEMPLATES

SIZES: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}


@pytest.fixture(scope="module")
def path(model_file: ModelFile, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A random model, under the name "small"."""
    file = model_file(
        **SIZES, tokenizer="calls hermes", chat_template=TEMPLATES["hermes"], context_length=4096, vocab=384
    )
    link = tmp_path_factory.mktemp("served") / "small.gguf"
    link.symlink_to(file)
    return link


@pytest.fixture(scope="module")
def model(path: Path) -> Iterator[Model]:
    with Model.open(path, threads=1) as found:
        yield found


@pytest.fixture(scope="module")
def server(path: Path) -> Iterator[Served]:
    with served(path) as found:
        yield found
