"""Thoughts between the tags of Mistral and Seed-OSS: replies become text with <think>, however they are cut."""

import re
from pathlib import Path

import pytest

from edgellm.text.reply_format import ReplyFormat, reply_format
from edgellm.text.tokenizer import Tokenizer
from support.tiny_vocab import write_bpe

TAGS = [("[THINK]", "[/THINK]"), ("<seed:think>", "</seed:think>")]
CONTROL, USER_DEFINED = 3, 4


def vocabulary(folder: Path, tags: tuple[str, str], kind: int | None) -> Tokenizer:
    special = {"<|end|>": CONTROL} | ({} if kind is None else dict.fromkeys(tags, kind))
    return Tokenizer.open(write_bpe(folder / f"{kind}.gguf", ["t h"], special))


def form_of(tags: tuple[str, str]) -> ReplyFormat:
    form = reply_format(f"{{{{ {tags[0]!r} }}}}{{{{ m }}}}{{{{ {tags[1]!r} }}}}")
    assert form
    return form


def read(tokenizer: Tokenizer, tags: tuple[str, str], reply: str, begun: str = "", size: int = 1) -> str:
    """The text of a reply that comes in pieces of `size` characters; marks that are tokens come as such."""
    reader = form_of(tags).reader_in(tokenizer, begun)
    assert reader
    marks = list(reader.marks.values())
    parts = re.split(f"({'|'.join(map(re.escape, marks))})", reply) if marks else [reply]
    said = ""
    for part in parts:
        cut = [reader.text(part[i : i + size]) for i in range(0, len(part), size)] if part not in marks else []
        said += reader.mark(part) if part in marks else "".join(cut)
    return said + reader.flush()


REPLIES = {
    "[Let me\n\nsee.]Noon.": "<think>\nLet me\n\nsee.\n</think>\n\nNoon.",
    " \n[\nLet me\n]Noon.": " \n<think>\nLet me\n</think>\n\nNoon.",
    "[]Noon.": "Noon.",
    "Noon.": "Noon.",
    "": "",
    "[Let me": "<think>\nLet me",
    "[A][B]C": "<think>\nA\n</think>\n\n<think>\nB\n</think>\n\nC",
}


@pytest.mark.parametrize("kind", [CONTROL, USER_DEFINED, None], ids=["control", "user-defined", "text"])
@pytest.mark.parametrize("tags", TAGS)
def test_replies_become_text(tags: tuple[str, str], kind: int | None, tmp_path: Path) -> None:
    tokenizer = vocabulary(tmp_path, tags, kind)
    for short, text in REPLIES.items():
        reply = short.replace("[", "\0").replace("]", tags[1]).replace("\0", tags[0])
        for size in (1, 2, 3, 5, 100):
            assert read(tokenizer, tags, reply, size=size) == text
    thought = f"Let me{tags[1]}Noon."
    assert read(tokenizer, tags, thought, begun="<think>\n") == "Let me\n</think>\n\nNoon."


@pytest.mark.parametrize("tags", TAGS)
def test_marks_that_are_text_mean_nothing_in_an_answer(tags: tuple[str, str], tmp_path: Path) -> None:
    tokenizer = vocabulary(tmp_path, tags, None)
    for reply in (f"It is {tags[0]}x{tags[1]}", f"{tags[1]} x", f"A{tags[0][:-1]}", tags[0][:3], f"x{tags[1][:-2]}"):
        for size in (1, 4, 100):
            assert read(tokenizer, tags, reply, size=size) == reply
    assert read(tokenizer, tags, f"{tags[0]}so {tags[0]} or{tags[1]}A{tags[1]}") == (
        f"<think>\nso {tags[0]} or\n</think>\n\nA{tags[1]}"
    )


@pytest.mark.parametrize("tags", TAGS)
def test_what_looks_like_a_token_is_text(tags: tuple[str, str], tmp_path: Path) -> None:
    reader = form_of(tags).reader_in(vocabulary(tmp_path, tags, CONTROL), "")
    assert reader and reader.text(f"{tags[0]}x{tags[1]}") == f"{tags[0]}x{tags[1]}"


def test_white_space_that_models_write_behind_a_thought_is_left_out(tmp_path: Path) -> None:
    for tags, follow in zip(TAGS, ("", "\n"), strict=True):
        for kind in (CONTROL, None):
            reply = f"{tags[0]}\nA\n{tags[1]}{follow}\nB"
            assert read(vocabulary(tmp_path, tags, kind), tags, reply) == "<think>\nA\n</think>\n\n\nB"


@pytest.mark.parametrize("tags", TAGS)
def test_text_becomes_the_beginning_of_a_reply(tags: tuple[str, str]) -> None:
    opening, closing = tags
    continued = form_of(tags).continuation
    assert continued("No") == [("No", False)]
    assert continued("<think>\nLet me") == [(opening, True), ("Let me", False)]
    assert continued("<think>\nA\n</think>\n\nNo") == [(opening, True), ("A", False), (closing, True), ("No", False)]


def test_templates_with_the_usual_tags_have_no_format() -> None:
    assert reply_format("{{ '<think>' }}{{ m }}{{ '</think>' }}") is None
