"""The text of a generation: whole characters, and stop strings, which may span tokens."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm import Model
from support.generation import BOS, BYTES, EOT, GREEDY, NEVER, NO_END, PROMPT, TINY
from support.model_file import ModelFile


@pytest.fixture(scope="module")
def model(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**TINY, eot=EOT), threads=1) as model:
        yield model


@pytest.fixture(scope="module")
def model_path(model_file: ModelFile) -> Path:
    return model_file(**TINY)


@given(spelled=st.text(alphabet="é€😀", min_size=1, max_size=3), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_no_half_character_ever_appears(model_path: Path, spelled: str, seed: int) -> None:
    """Only bytes of a few characters are sampled, in any order: valid characters are complete, others U+FFFD."""
    allowed = {BYTES[byte] for byte in spelled.encode()}
    bias = {i: NEVER for i in range(320) if i not in allowed}
    with Model.open(model_path, threads=1) as model:
        tokens = list(model.stream("a", max_tokens=40, temp=5.0, top_k=0, seed=seed, logit_bias=bias))
    whole = bytes(token.id - BYTES[0] for token in tokens).decode(errors="replace")
    so_far = ""
    for token in tokens:
        so_far += token.text
        assert whole.startswith(so_far)
    assert so_far == whole


@given(data=st.data())
@settings(max_examples=40, deadline=None)
def test_stop_strings_end_the_text_before_them(model: Model, data: st.DataObject) -> None:
    text = model.generate(PROMPT, **GREEDY).text
    start = data.draw(st.integers(0, len(text) - 2))
    stop = text[start : start + data.draw(st.integers(1, 12))]
    reply = model.generate(PROMPT, stop=[stop, "never in this text"], **GREEDY)
    assert reply.text == text[: text.index(stop)]
    # The last character may be one that was never finished, and known only when the length was reached.
    assert reply.finish_reason == "stop" or (reply.finish_reason == "length" and text.endswith(stop))


def test_a_stop_string_over_several_tokens(model: Model) -> None:
    texts = [token.text for token in model.stream(PROMPT, **GREEDY)]
    i = next(i for i in range(5, 30) if all(texts[i : i + 3]) and "".join(texts).count("".join(texts[i : i + 3])) == 1)
    stop = "".join(texts[i : i + 3])
    tokens = list(model.stream(PROMPT, stop=stop, **GREEDY))
    assert "".join(token.text for token in tokens) == "".join(texts[:i])
    assert (len(tokens), tokens[-1].finish_reason) == (i + 3, "stop")


def test_a_control_token_is_a_stop_string(model: Model) -> None:
    """The stop string alone, and after letters of the token before."""
    wanted: dict[str, Any] = {"temp": 1, "seed": 5, "max_tokens": 60, "logit_bias": NO_END | {BOS: 4}}
    tokens = list(model.stream(PROMPT, **wanted))
    ends = [i for i, token in enumerate(tokens) if token.id == BOS]
    behind = next(i for i in ends if i and len(tokens[i - 1].text) > 1)
    for stop, at, shown in (("<s>", ends[0], ends[0]), (tokens[behind - 1].text + "<s>", behind, behind - 1)):
        reply = model.generate(PROMPT, stop=stop, **wanted)
        assert (reply.finish_reason, len(reply.tokens)) == ("stop", at + 1)
        assert reply.text == "".join(token.text for token in tokens[:shown])
    seen = model.generate(PROMPT, stop="<s>", special=True, **wanted)
    assert (seen.finish_reason, len(seen.tokens)) == ("stop", ends[0] + 1)


def test_a_held_back_beginning_of_a_stop_string_is_released_at_the_end(model: Model) -> None:
    text = model.generate(PROMPT, **GREEDY).text
    reply = model.generate(PROMPT, stop=text[-3:] + "and what never came", **GREEDY)
    assert (reply.text, reply.finish_reason) == (text, "length")


def test_a_held_back_beginning_of_a_stop_string_is_kept_after_cancel(model: Model) -> None:
    generation = model.stream(PROMPT, **GREEDY)
    texts = [next(generation).text for _ in range(8)]
    assert all(texts[6:])
    held = model.stream(PROMPT, stop="".join(texts[6:]) + "and what never came", **GREEDY)
    told = "".join(next(held).text for _ in range(8))
    assert told == held.text == "".join(texts[:6])
    held.cancel()
    assert held.text == held.completion().text == "".join(texts)


def test_half_a_character_is_not_kept_after_cancel(model: Model) -> None:
    only = {i: NEVER for i in range(320) if i != BYTES[0xE2]}
    generation = model.stream(PROMPT, logit_bias=only)
    next(generation)
    generation.cancel()
    assert generation.text == ""
