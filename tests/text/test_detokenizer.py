"""Streaming: only complete characters, and all bytes by the end."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.errors import EdgeLLMError
from edgellm.text.detokenizer import IncrementalDetokenizer, excerpt
from edgellm.text.tokenizer import Tokenizer
from support.tiny_vocab import write_bpe, write_spm


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """Ids 0 to 255 are the bytes, 257 a control token."""
    return Tokenizer.open(write_bpe(tmp_path_factory.mktemp("v") / "v.gguf", ["h e"], {"<ctl>": 3}))


@given(st.binary(max_size=60))
def test_arbitrary_bytes_are_decoded_as_if_at_once(tokenizer: Tokenizer, data: bytes) -> None:
    stream = IncrementalDetokenizer(tokenizer)
    pieces = [stream.push(byte) for byte in data]
    assert "".join(pieces) + stream.flush() == data.decode(errors="replace")


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_a_character_is_complete_with_its_last_byte(tokenizer: Tokenizer, text: str) -> None:
    stream = IncrementalDetokenizer(tokenizer)
    expected = [piece for char in text for piece in [""] * (len(char.encode()) - 1) + [char]]
    assert [stream.push(byte) for byte in text.encode()] == expected
    assert stream.flush() == ""


def test_flush_ends_an_incomplete_character_and_starts_over(tokenizer: Tokenizer) -> None:
    stream = IncrementalDetokenizer(tokenizer)
    assert (stream.push(0xE2), stream.push(0x82), stream.flush(), stream.flush()) == ("", "", "\ufffd", "")
    assert stream.push(0x41) == "A"


def test_control_tokens_show_only_on_request(tokenizer: Tokenizer) -> None:
    assert IncrementalDetokenizer(tokenizer).push(257) == ""
    assert IncrementalDetokenizer(tokenizer, special=True).push(257) == "<ctl>"
    with pytest.raises(EdgeLLMError):
        IncrementalDetokenizer(tokenizer).push(258)


def test_the_leading_space_is_kept(tmp_path: Path) -> None:
    tokenizer = Tokenizer.open(write_spm(tmp_path / "v.gguf", {"▁a": -1.0}, {}))
    assert IncrementalDetokenizer(tokenizer).push(259) == " a"


def test_an_excerpt_for_people(tokenizer: Tokenizer) -> None:
    ids = tokenizer.encode("Cutting Knowledge Date: December 2023\nToday Date: 21 Nov 2025 <ctl>", parse_special=True)
    assert excerpt(tokenizer, ids, 50) == "…023 Today Date: 21 Nov 2025 <ctl"
    assert excerpt(tokenizer, ids, 38) == "…: December 2023 Today Date: 21 N"
    assert excerpt(tokenizer, ids, 0) == "Cutting Knowledg"
    odd = tokenizer.encode("é" * 30 + "\x1b[1m")
    assert set(excerpt(tokenizer, odd, 31)) == {"…", "é"}  # half a character at each end is left out
    assert "\x1b" not in excerpt(tokenizer, odd, 60)
