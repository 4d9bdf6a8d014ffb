"""Files that hold no model of their own, by their first keys."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from edgellm.arch import ARCHITECTURES, describe
from edgellm.arch.head_files import HEAD_FILES
from edgellm.errors import UnsupportedModelError
from edgellm.gguf import GGUFFile
from edgellm.gguf.auxiliary import HEAD, auxiliary_kind, auxiliary_kind_at, check_model_at
from support import gguf_bytes as raw
from support.auxiliary_files import KINDS, auxiliary_file
from support.local_models import model


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_no_model_is_told_and_refused(tmp_path: Path, name: str) -> None:
    path = auxiliary_file(name, raw.string_pair("general.name", "x"), raw.u32_pair("a.b", 1)).write(tmp_path / "a.gguf")
    found = auxiliary_kind_at(path)
    assert found and found.kind == KINDS[name]
    with GGUFFile.open(path) as file:
        assert auxiliary_kind(file.metadata) == found
        with pytest.raises(UnsupportedModelError) as error:
            describe(file)
    assert str(error.value) == f"{path}: {found.refusal}"
    with pytest.raises(UnsupportedModelError) as error:
        check_model_at(path)
    assert str(error.value) == f"{path}: {found.refusal}"
    assert f"holds {found.name}, not a model; " in found.refusal


def test_heads_are_those_that_edgellm_computes() -> None:
    kinds = {name: auxiliary_kind({"general.architecture": name}) for name in (*HEAD_FILES, *ARCHITECTURES)}
    assert [name for name, kind in kinds.items() if kind and kind.kind == HEAD] == list(HEAD_FILES)
    assert not any(kinds[name] for name in ARCHITECTURES)


def test_the_type_may_stand_behind_the_architecture_and_before_it(tmp_path: Path) -> None:
    """And behind text; but no value is read that stands behind both."""
    pairs = [raw.string_pair("general.type", "adapter"), raw.string_pair("general.architecture", "llama")]
    text, array = (
        raw.string_pair("general.license", "x" * 1000),
        raw.strings_pair("tokenizer.ggml.tokens", ["y"] * 9000),
    )
    for order in ((*pairs, array), (*reversed(pairs), array), (pairs[1], text, pairs[0], array)):
        found = auxiliary_kind_at(raw.RawGGUF(order).write(tmp_path / "a.gguf"))
        assert found and found.kind == "adapter"
    whole = raw.RawGGUF((*pairs, array)).build()
    (tmp_path / "a.gguf").write_bytes(whole[:200])
    found = auxiliary_kind_at(tmp_path / "a.gguf")
    assert found and found.kind == "adapter"


def test_models_and_what_cannot_be_read_are_of_no_such_kind(tmp_path: Path) -> None:
    contents = {"model": model().build(), "empty": b"", "short": b"GGUF\3\0\0\0", "text": b"clip " * 100}
    late = raw.RawGGUF((raw.string_pair("a", "x" * (1 << 17)), raw.string_pair("general.architecture", "clip")))
    number = raw.RawGGUF((raw.u32_pair("general.architecture", 7),))
    head = auxiliary_file("eagle3")
    other, newer = replace(head, magic=b"XXXX"), replace(head, version=4)
    made = {"late": late, "number": number, "other": other, "newer": newer}
    for name, content in (contents | {each: file.build() for each, file in made.items()}).items():
        (tmp_path / name).write_bytes(content)
        assert auxiliary_kind_at(tmp_path / name) is None, name
    if hasattr(os, "mkfifo"):
        os.mkfifo(tmp_path / "pipe")
    for name in ("none", "pipe", ".", "a\0b"):
        assert auxiliary_kind_at(tmp_path / name) is None
