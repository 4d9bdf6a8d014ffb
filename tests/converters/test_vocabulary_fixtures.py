"""The tokenizers of the fixtures in shared/archs: the keys in GGUF are those of llama.cpp's converter."""

import json
from pathlib import Path
from typing import Any

import gguf
import pytest

from converters.vocabulary import vocabulary
from support import SHARED
from support.vocabulary_folder import Folder

FOLDERS = sorted(path.parent for path in (SHARED / "archs").glob("*/tokenizer.json"))
# llama.cpp's converter knows pre-tokenizers by a hash that the small tokenizer of the fixtures does not have. It was
# told that the name is gpt-2, which has the same rules as the family's own name.
OTHER_NAMES = {"exaone4": "exaone4"}


class ReadOnly(Folder):
    """A folder of a fixture."""

    def __init__(self, path: Path) -> None:
        self.path, self.config = path, json.loads((path / "config.json").read_text(encoding="utf-8"))


@pytest.mark.skipif(not FOLDERS, reason="no shared data beside the project")
@pytest.mark.parametrize("path", FOLDERS, ids=lambda path: path.name)
def test_keys_are_llama_cpps(path: Path) -> None:
    fields = gguf.GGUFReader(next(path.glob("*.gguf"))).fields
    theirs: dict[str, Any] = {key: field.contents() for key, field in fields.items() if key.startswith("tokenizer.")}
    theirs.pop("tokenizer.ggml.token_type_count", None)  # of BERT's segments
    theirs["tokenizer.ggml.pre"] = OTHER_NAMES.get(path.name, theirs["tokenizer.ggml.pre"])
    assert {key: value.value for key, value in vocabulary(ReadOnly(path), 320).items()} == theirs
