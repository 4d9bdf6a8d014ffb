"""The file of an EAGLE-3 head is opened for its own target alone."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from edgellm import ModelFileError, UnsupportedModelError
from edgellm.arch import describe
from edgellm.gguf import GGUFFile
from edgellm.speculation.draft_file import DraftTarget
from edgellm.speculation.head_file import HeadFile, is_head_file
from edgellm.text.tokenizer import Tokenizer
from support import gguf_bytes as raw
from support.eagle3_heads import HeadFiles, write_head_files
from support.gguf_parts import GGUFParts
from support.model_file import ModelFile


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> HeadFiles:
    return write_head_files(tmp_path_factory.mktemp("heads"), "midlayer", "Q8_0")


@pytest.fixture(scope="module")
def target(files: HeadFiles) -> Iterator[DraftTarget]:
    with GGUFFile.open(files.target) as file:
        yield DraftTarget(file, describe(file), Tokenizer(file))


def test_a_head_of_the_target(files: HeadFiles, target: DraftTarget) -> None:
    assert is_head_file(files.head)
    assert not is_head_file(files.target)
    with HeadFile.open(files.head, target) as opened:
        assert opened.head.source == "eagle"
        assert opened.head.model.embedding is target.model.embedding
        assert opened.name == str(files.head)


def test_a_head_without_a_vocabulary(files: HeadFiles, target: DraftTarget, tmp_path: Path) -> None:
    parts = GGUFParts.read(files.head)
    pairs = {name: pair for name, pair in parts.pairs.items() if not name.startswith("tokenizer.")}
    with HeadFile.open(written(replace(parts, pairs=pairs), tmp_path), target) as opened:
        assert opened.head.tokens is not None


def test_the_tokens_of_another_model(files: HeadFiles, target: DraftTarget, tmp_path: Path) -> None:
    """As many, in another order: the ids that it drafts would mean other texts."""
    parts, name = GGUFParts.read(files.head), "tokenizer.ggml.tokens"
    with GGUFFile.open(files.head) as file:
        tokens = list(file.get_strings(name))
    moved = raw.strings_pair(name, [*tokens[:20], *reversed(tokens[20:])])
    with pytest.raises(UnsupportedModelError, match=r"head\.gguf.*tokens"):
        HeadFile.open(written(replace(parts, pairs=parts.pairs | {name: moved}), tmp_path), target)


def test_files_that_are_no_heads_of_the_target(files: HeadFiles, target: DraftTarget, model_file: ModelFile) -> None:
    with pytest.raises(ModelFileError, match="has architecture llama, which is no draft head"):
        HeadFile.open(files.target, target)
    with GGUFFile.open(model_file(width=256)) as other:
        wider = DraftTarget(other, describe(other), Tokenizer(other))
        with pytest.raises(ModelFileError, match="is a head for a model of width 64, and this one has 256; choose"):
            HeadFile.open(files.head, wider)


def written(parts: GGUFParts, folder: Path) -> Path:
    path = folder / "head.gguf"
    path.write_bytes(parts.build())
    return path
