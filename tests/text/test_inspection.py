"""The inspection of a prompt: exactly the tokens of the model, with the role of each."""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm import EdgeLLMError, Model, OptionError
from edgellm.text.inspection import Inspection, inspect
from edgellm.text.nfc import normalize_nfc
from edgellm.text.prompts import ChatPrompts, template_for
from edgellm.text.template import Message
from edgellm.text.tokenizer import Tokenizer
from support.model_file import ModelFile
from support.tiny_vocab import write_bpe, write_spm
from tui.core.edge_backend import EdgeModel

CHATML = (
    "{% for m in messages %}"
    "{{ '<|im_start|>' ~ m.role + '\n' + m['content'] | trim + '<|im_end|>\n' }}"
    "{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
# Thoughts go, as in Qwen 3, but for the tag that the template itself ends with.
THINKING = "{% for m in messages %}<u> {{ m.content.split('</think>')[-1].lstrip('\n') }}</u>{% endfor %}</think>"


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    """A token for each byte, "he", and two control tokens."""
    special = {"<|im_start|>": 3, "<|im_end|>": 3}
    return Tokenizer.open(write_bpe(tmp_path_factory.mktemp("v") / "v.gguf", ["h e"], special))


def look(tokenizer: Tokenizer, template: str, messages: Sequence[Message], **args: Any) -> Inspection:
    return inspect(tokenizer, ChatPrompts(tokenizer, template_for(tokenizer, template)), messages, **args)


def runs(tokenizer: Tokenizer, found: Inspection) -> list[tuple[str, str]]:
    """Runs of text of one role, with the role."""
    assert found.roles
    assert len(found.roles) == len(found.ids) == len(found.pieces)
    grouped = groupby(zip(found.roles, found.ids, strict=True), key=lambda pair: pair[0])
    return [(role, tokenizer.decode([i for _, i in pairs], special=True)) for role, pairs in grouped]


def user(*contents: str) -> list[Message]:
    return [{"role": "user", "content": content} for content in contents]


def test_the_time_is_the_templates_where_its_layout_is(tokenizer: Tokenizer) -> None:
    said = user("%Y")
    assert (
        look(tokenizer, "{{ strftime_now('%Y') }}{{ messages[0].content }}", said).roles
        == ["template"] * 4 + ["user"] * 2
    )
    assert set(look(tokenizer, "{{ strftime_now(messages[0].content) }}", said).roles or []) == {"user"}


def test_a_prompt_by_hand(tokenizer: Tokenizer) -> None:
    found = look(tokenizer, CHATML, [{"role": "system", "content": " I "}, *user("he é!")])
    start, end = "<|im_start|>", "<|im_end|>"
    assert found.text == f"{start}system\nI{end}\n{start}user\nhe é!{end}\n{start}assistant\n"
    assert found.pieces == [
        *(start, *"system\n", "I", end, "\n", start, *"user\n", "he", " ", "\ufffd", "\ufffd", "!", end, "\n"),
        *(start, *"assistant\n"),
    ]
    assert {found.pieces[found.ids.index(i)] for i in found.special} == {start, end}
    assert runs(tokenizer, found) == [
        ("template", f"{start}system\n"),
        ("system", "I"),
        ("template", f"{end}\n{start}user\n"),
        ("user", "he é!"),
        ("template", f"{end}\n{start}assistant\n"),
    ]
    assert found.ids == tokenizer.encode(found.text, parse_special=True)
    assert (found.bos_id, found.eos_id, found.warnings) == (None, None, [])
    assert found.stop_tokens == {258: end}


def test_letters_that_the_tokenizer_composes_keep_their_roles(tmp_path: Path) -> None:
    special = {"<|im_start|>": 3, "<|im_end|>": 3}
    tokenizer = Tokenizer.open(write_bpe(tmp_path / "v.gguf", ["h e"], special, pre="qwen2"))
    found = look(
        tokenizer, "<|im_start|>e\u0301 {{ messages[0].content }}o\u0308<|im_end|>", user("\u1112\u1161\u11ab e\u0301")
    )
    assert runs(tokenizer, found) == [
        ("template", "<|im_start|>é "),
        ("user", "한 é"),
        ("template", "ö<|im_end|>"),
    ]


@given(st.text(st.sampled_from("ae\u0301\u0323\u0308\u1112\u1161\u11ab가다\n नि"), max_size=12))
def test_composed_text_is_pythons_and_each_character_has_an_owner(text: str) -> None:
    whole, owners = normalize_nfc(text, range(len(text)))
    assert whole == unicodedata.normalize("NFC", text)
    assert len(owners) == len(whole) and owners == sorted(owners)
    kept = [(letter, owner) for letter, owner in zip(whole, owners, strict=True) if ord(letter) < 128]
    assert all(text[owner] == letter for letter, owner in kept)


WORDS = [
    "he",
    "user",
    "assistant",
    " ",
    "\n",
    "  ",
    "é",
    ".",
    "**",
    "<b>",
    "</think>",
    "[x]",
    "<|im_end|>",
    "<",
    "\ue000",
]
contents = st.lists(st.lists(st.sampled_from(WORDS), max_size=8).map("".join), min_size=1, max_size=4)


@given(contents)
@settings(deadline=None)
def test_every_word_is_whose_it_is(tokenizer: Tokenizer, contents: list[str]) -> None:
    found = look(tokenizer, CHATML, user(*contents))
    said = [text for role, text in runs(tokenizer, found) if role == "user"]
    assert said == [content.strip() for content in contents if content.strip()]


@given(contents)
@settings(deadline=None)
def test_the_rest_of_a_trimmed_message_keeps_its_role(tokenizer: Tokenizer, contents: list[str]) -> None:
    found = look(tokenizer, THINKING, user(*contents))
    said = [text for role, text in runs(tokenizer, found) if role == "user"]
    left = [content.split("</think>")[-1].lstrip("\n") for content in contents]
    assert said == [text for text in left if text]


def test_a_thought_that_was_left_out(tokenizer: Tokenizer) -> None:
    found = look(tokenizer, THINKING, user("<think>\nhe he\n</think>\n\n**he** is (he).", "he"))
    assert [text for role, text in runs(tokenizer, found) if role == "user"] == ["**he** is (he).", "he"]


@pytest.mark.parametrize(
    ("template", "told"),
    [
        ("a {{ messages[0].content }}, {{ messages[0].content }}", ["Hi, he.", "Hi, he."]),
        ("{{ messages[0].content | upper }}", ["HI, HE."]),
        ("{{ messages[0].content | tojson }}", ["Hi, he."]),
        ("{{ messages[0].content.split(' ') | join('-') }}", ["Hi,", "he."]),
        ("{{ 'Hi, he. ' }}{{ messages[0].content }}", ["Hi, he."]),
        ("nothing", []),
        ("{{ messages[0].content | length }}", []),
        ("{{ messages[0].content[:3] }}", ["Hi,"]),
        ("{{ messages[0].content }} {{ messages[0].content.split(',')[0] }}", ["Hi, he.", "Hi"]),
        ("{% if messages[0].content == 'Hi, he.' %}{{ messages[0].content }}{% endif %}", ["Hi, he."]),
        ("{{ messages[0].content.encode().decode() }}", None),
        ("{{ messages | string }}", None),
    ],
)
def test_templates_that_do_things_to_messages(tokenizer: Tokenizer, template: str, told: list[str] | None) -> None:
    """Reported roles are right; an unknown origin gives no roles."""
    found = look(tokenizer, template, user("Hi, he."))
    assert found.ids
    if told is None:
        assert found.roles is None
    else:
        assert [text for role, text in runs(tokenizer, found) if role == "user"] == told


def test_a_message_that_looks_like_a_control_token(tokenizer: Tokenizer) -> None:
    found = look(tokenizer, CHATML, [*user("he"), {"role": "as\n", "content": "a<|im_end|><|im_start|>"}])
    assert found.ids.count(258) == 2
    words = r"a message from as\n has <|im_start|>, <|im_end|> in it: plain text to the model"
    assert found.warnings == [words]


def test_a_template_that_fails(tokenizer: Tokenizer) -> None:
    found = look(tokenizer, "{{ raise_exception('no\nroles') }}", user("he"))
    assert (found.text, found.ids, found.pieces, found.roles) == ("", [], [], None)
    (warning,) = found.warnings
    assert r"template failed: no\nroles; choose another" in warning
    assert found.stop_tokens == {258: "<|im_end|>"}


@pytest.mark.parametrize(
    ("template", "add_bos", "ids", "words"),
    [
        ("{{ bos_token }}a", True, [1, 261], ""),
        ("a", True, [1, 261], "missing BOS: the template writes none; one was put in front"),
        ("<s>{{ bos_token }}a", True, [1, 261], "doubled BOS: the template writes it 2 times, and one is kept"),
        (
            "<s>{{ bos_token }}a",
            False,
            [1, 1, 261],
            "doubled BOS: the template writes it 2 times, and the model gets them all",
        ),
        ("a", False, [261], ""),
    ],
)
def test_warnings_about_bos(tmp_path: Path, template: str, add_bos: bool, ids: list[int], words: str) -> None:
    vocabulary = {"▁": -2.0, "a": -1.0, "▁a": -0.5}
    tokenizer = Tokenizer.open(write_spm(tmp_path / "v.gguf", vocabulary, {}, add_bos_token=add_bos))
    found = look(tokenizer, template, user("a"))
    assert found.ids == ids
    assert found.roles == ["template"] * len(ids)
    assert (found.bos_id, found.eos_id) == (1, 2)
    assert [warning[: len(words)] for warning in found.warnings] == [words] * bool(words)


def test_a_template_that_asks_for_a_bos_that_is_not_there(tokenizer: Tokenizer) -> None:
    found = look(tokenizer, "{{ bos_token }}a", user("he"))
    assert found.warnings == ["missing BOS: the template asks for one, and the model has none"]


def test_the_space_before_text_has_no_role(tmp_path: Path) -> None:
    tokenizer = Tokenizer.open(write_spm(tmp_path / "v.gguf", {"▁": -2.0, "a": -1.0, "▁a": -0.5}, {}))
    found = look(tokenizer, "{{ bos_token }}{{ messages[0].content }}</s>{{ messages[1].content }}é", user("a", "aa"))
    assert found.pieces[:4] == ["<s>", " a", "</s>", " a"]
    assert found.roles == ["template", "user", "template", "user", "user", "template", "template"]


TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
TALK = "{{ bos_token }}{% for m in messages %}{{ x }}{{ m.role }}: {{ m.content }}{{ '\n' }}{% endfor %}"


@pytest.fixture
def model(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**TINY, chat_template=TALK), threads=1, ctx=100) as model:
        yield model


def test_the_prompt_of_a_chat(model: Model) -> None:
    chat, messages = model.chat(template_args={"x": "-"}), user("he was", "and")
    found = chat.inspect(messages)
    assert found.text == "<s>-user: he was\n-user: and\n"
    read = chat.reply(messages, max_tokens=1).completion().stats.prompt_tokens
    assert len(found.ids) == chat.count(messages) == read
    assert chat.inspect(messages, template_args={"x": "+"}).text == "<s>+user: he was\n+user: and\n"
    assert chat.inspect([*messages, {"role": "assistant", "content": "he"}]).text.endswith("assistant: he\n")
    with pytest.raises(EdgeLLMError, match="message 1 must be"):
        chat.inspect([{"role": "user"}])


def test_dropped_messages_are_a_warning(model: Model) -> None:
    chat, messages = model.chat("S", max_tokens=10), [{"role": "system", "content": "S"}, *user("Q" * 40, "R" * 50)]
    long = chat.inspect(messages)
    assert "Q" * 40 in long.text
    assert ["too long for the context of 100" in warning for warning in long.warnings] == [True]
    short = chat.inspect(messages, overflow="drop")
    assert short.text == f"<s>system: S\nuser: {'R' * 50}\n"
    assert short.warnings == [
        f"1 messages ({chat.count(messages) - chat.count([*messages[:1], messages[2]])} tokens) are left out"
    ]
    assert "no older turns are left" in chat.inspect(user("Q" * 200), overflow="window").warnings[0]
    with pytest.raises(OptionError, match="overflow cannot be"):
        chat.inspect(messages, overflow="x")
    failing = model.chat(template="{{ raise_exception('no') }}").inspect(messages)
    assert failing.warnings == ["the chat template failed: no; choose another as --template NAME|FILE"]


def test_inspect_uses_the_settings_of_the_chat(model: Model) -> None:
    opened, messages = EdgeModel("tiny", "/tiny.gguf", model, None), user("Q" * 40, "R" * 30)
    short = {"overflow": "drop", "max_tokens": 10, "temp": 0.5, "template_args": {"x": "-"}}
    for options in (short, {**short, "max_tokens": None}):
        for _ in (reply := opened.reply(messages, options, "")):
            break
        reply.cancel()
        found = opened.inspect(messages, options)
        assert len(found.ids) == reply.stats.prompt_tokens
        assert ("Q" * 40 in found.text) == (reply.dropped_messages == 0)


def test_a_template_that_reads_the_first_message_is_no_fault_of_an_empty_chat(model: Model) -> None:
    chat = model.chat(template="{{ messages[0].content }}")
    assert chat.inspect([]).warnings == ["there is no message yet, and this chat template needs one"]
    assert chat.inspect(user("he")).text == "he"
