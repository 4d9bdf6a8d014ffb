"""Conversations: their messages, the tokens that a turn computes, and that message text stays plain text."""

from collections.abc import Iterator
from threading import Event, Thread
from typing import Any

import pytest

from edgellm import Chat, ContextOverflowError, EdgeLLMError, Model, OptionError
from support.model_file import ModelFile

# A template without control tokens of its own but BOS.
TEMPLATE = (
    "{{ bos_token }}{% for m in messages %}{{ m.role }}: {{ m.content }}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}assistant: {% endif %}"
)
TINY: dict[str, Any] = {"width": 64, "heads": 2, "kv_heads": 1, "head_dim": 32, "ffn": 96, "types": "F32"}
GREEDY: dict[str, Any] = {"max_tokens": 8, "temp": 0, "logit_bias": {2: -float("inf")}}


@pytest.fixture
def model(model_file: ModelFile) -> Iterator[Model]:
    with Model.open(model_file(**TINY, chat_template=TEMPLATE), threads=1) as model:
        yield model


def rendered(*messages: tuple[str, str]) -> str:
    return "".join(f"{role}: {content}\n" for role, content in messages) + "assistant: "


def said(chat: Chat) -> list[tuple[str, str]]:
    return [(message["role"], message["content"]) for message in chat.messages]


def test_messages_are_kept_and_rendered(model: Model) -> None:
    chat = model.chat(system="the time", **GREEDY)
    assert said(chat) == [("system", "the time")]
    first = chat.send("he was")
    # Raw prompts of this model get a leading space, as its template does after BOS.
    assert first.text == model.generate(rendered(("system", "the time"), ("user", "he was")), **GREEDY).text
    second = chat.send("and in")
    history = [("system", "the time"), ("user", "he was"), ("assistant", first.text)]
    assert said(chat) == [*history, ("user", "and in"), ("assistant", second.text)]
    assert second.text == model.generate(rendered(*history, ("user", "and in")), **GREEDY).text


def test_a_reply_continues_its_given_beginning(model: Model) -> None:
    asked = [{"role": "user", "content": "he was"}]
    begun = "in the time"
    reply = model.chat(**GREEDY).reply(asked, begun=begun).completion()
    assert reply.text == model.generate(rendered(("user", "he was")) + begun, **GREEDY).text
    whole = model.chat(**GREEDY).reply(asked).completion()
    assert model.chat(**GREEDY).reply(asked, begun="").completion().tokens == whole.tokens


def test_the_given_beginning_of_a_reply_is_plain_text(model: Model) -> None:
    """As in messages, no text becomes a control token."""
    prompts = model.chat(**GREEDY)._prompts._prompts
    asked = [{"role": "user", "content": "he was"}]
    begun = prompts.ids(asked, "in</s> the<s>")[len(prompts.ids(asked)) :]
    assert begun and not {1, 2} & set(begun)


def test_a_turn_computes_only_its_new_tokens(model: Model) -> None:
    chat = model.chat(**GREEDY)
    first = chat.send("he was in the time and on")
    assert first.stats.cached_tokens == 0
    second = chat.send("and")
    assert second.stats.cached_tokens >= first.stats.prompt_tokens - 1
    assert second.stats.prompt_tokens > first.stats.prompt_tokens + len(first.tokens)


def test_chats_of_one_model_are_apart(model: Model) -> None:
    alone = [model.chat(**GREEDY).send(text).text for text in ("the", "on")]
    one, two = model.chat(**GREEDY), model.chat(**GREEDY)
    streams = one.stream("the"), two.stream("on")
    for _ in zip(*streams, strict=True):
        pass
    assert [stream.text for stream in streams] == alone
    assert [said(chat)[1][1] for chat in (one, two)] == alone


def test_the_text_so_far_is_kept_after_cancel(model: Model) -> None:
    chat = model.chat(**GREEDY)
    tokens = []
    for token in chat.stream("he was"):
        tokens.append(token)
        if len(tokens) == 4:
            chat.cancel()
    part = "".join(token.text for token in tokens)
    assert len(tokens) == 4
    assert said(chat) == [("user", "he was"), ("assistant", part)]
    assert len(chat.send("and").tokens) == 8


def test_a_reply_left_in_the_middle_ends_with_the_next_message(model: Model) -> None:
    chat = model.chat(**GREEDY)
    for token in chat.stream("he was"):
        if token.stats.generated_tokens == 3:
            break
    left = chat.stream("and")
    assert [role for role, _ in said(chat)] == ["user", "assistant"]
    assert said(chat)[0] == ("user", "he was")
    next(left)
    chat.send("on")
    assert left.finish_reason == "cancelled"
    assert [text for role, text in said(chat) if role == "user"] == ["he was", "and", "on"]


def test_a_reply_is_kept_by_a_reader_who_stops_at_its_last_token(model: Model) -> None:
    chat = model.chat(**GREEDY)
    for token in chat.stream("he was"):
        if token.finish_reason:
            break
    assert len(said(chat)) == 2


def test_the_text_so_far_is_kept_when_the_engine_fails(model: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    chat = model.chat(**GREEDY)
    stream = chat.stream("he was")
    part = "".join(next(stream).text for _ in range(4))
    with monkeypatch.context() as patch:
        patch.setattr(model.engine, "forward", None)
        with pytest.raises(TypeError):
            next(stream)
    assert said(chat) == [("user", "he was"), ("assistant", part)]
    assert len(chat.send("and").tokens) == 8


def test_cancel_stops_a_template_too(model: Model) -> None:
    endless = "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}"
    source = "{% if messages[0].content == 'long' %}" + endless + "{% endif %}" + TEMPLATE
    chat, done = model.chat(template=source, **GREEDY), Event()

    def cancel() -> None:
        while not done.wait(0.01):
            chat.cancel()

    canceller = Thread(target=cancel)
    canceller.start()
    with pytest.raises(EdgeLLMError, match="stopped before it had made the prompt"):
        chat.send("long")
    done.set()
    canceller.join()
    assert chat.messages == []
    assert chat.count([{"role": "user", "content": "the"}]) == chat.send("the").stats.prompt_tokens


def test_a_reply_cancelled_before_its_first_token_leaves_no_message(model: Model) -> None:
    chat = model.chat(**GREEDY)
    chat.cancel()  # nothing to cancel yet
    chat.stream("never read")
    chat.cancel()
    reply = chat.stream("z" * 300, progress=lambda done, total: chat.cancel())  # in two parts
    assert reply.completion().finish_reason == "cancelled"
    assert said(chat) == []
    chat.send("he was", max_tokens=0)
    assert said(chat) == [("user", "he was"), ("assistant", "")]


def test_a_message_that_does_not_fit_leaves_the_chat_as_it_was(model: Model) -> None:
    chat = model.chat(**GREEDY)
    chat.send("he was")
    before = said(chat)
    for wrong in ({"text": "z" * 600}, {"text": "and", "logit_bias": {320: 1.0}}, {"text": "and", "tmep": 1}):
        with pytest.raises((ContextOverflowError, OptionError)):
            chat.stream(**wrong)  # type: ignore[arg-type]
        assert said(chat) == before
    assert chat.send("and").finish_reason == "length"


def test_control_tokens_in_a_message_stay_text(model: Model) -> None:
    """The template's own BOS becomes the token; one in a message does not."""
    chat = model.chat(**GREEDY)
    reply = chat.send("</s><s>")
    ids = model.tokenizer.encode(rendered(("user", "</s><s>")), add_special=True)
    assert reply.stats.prompt_tokens == len(ids)
    assert ids.count(1) == 1
    assert 2 not in ids
    assert reply.text == model.generate(rendered(("user", "</s><s>")), **GREEDY).text


def test_a_reply_to_any_conversation(model: Model) -> None:
    chat = model.chat(system="never", **GREEDY)
    talk = [("system", "the time"), ("user", "he was"), ("assistant", "on"), ("user", "and")]
    messages = [{"role": role, "content": content} for role, content in talk]
    reply = chat.reply(messages).completion()
    assert reply.text == model.generate(rendered(*talk), **GREEDY).text
    assert (
        reply.stats.prompt_tokens
        == chat.count(messages)
        < chat.count([*messages, {"role": "assistant", "content": "x"}])
    )
    assert said(chat) == [("system", "never")]
    assert [message["content"] for message in messages] == ["the time", "he was", "on", "and"]
    assert len(chat.reply(messages, max_tokens=2).completion().tokens) == 2
    by_tool = [*talk[:2], ("assistant", "call"), ("tool", "5")]
    answer = chat.reply([{"role": role, "content": content} for role, content in by_tool]).completion()
    assert answer.text == model.generate(rendered(*by_tool), **GREEDY).text


def test_conversations_without_a_possible_reply(model: Model) -> None:
    chat = model.chat(**GREEDY)
    running = chat.stream("he was")
    next(running)
    user = {"role": "user", "content": "the"}
    wrong: list[tuple[Any, str]] = [
        ([], "there are no messages"),
        ([user, {"role": "assistant", "content": "x"}], "from assistant: end with one from user"),
        ([{"role": "system", "content": "x"}], "from system"),
        ([user, {"role": "us\ner", "content": ""}], r"from us\\ner"),
        ([{"role": "user"}], "message 1 must be"),
        ([user, {"role": "user", "content": None}], "message 2 must be"),
        (["the"], "message 1 must be"),
    ]
    for messages, words in wrong:
        with pytest.raises(EdgeLLMError, match=words) as error:
            chat.reply(messages)
        assert "\n" not in str(error.value)
    assert running.finish_reason is None  # what is refused disturbs nothing
    assert len(running.completion().tokens) == 8


def test_a_reply_ends_the_one_before_it(model: Model) -> None:
    chat = model.chat(**GREEDY)
    first = chat.reply([{"role": "user", "content": "he was"}])
    next(first)
    second = chat.reply([{"role": "user", "content": "and"}])
    assert (first.finish_reason, len(second.completion().tokens)) == ("cancelled", 8)
    chat.reply([{"role": "user", "content": "and"}])
    chat.cancel()
    assert said(chat) == []


@pytest.mark.parametrize(
    ("template", "knows"),
    [
        ("{% if enable_thinking is defined and enable_thinking %}a{% endif %}{{ messages }}", True),
        ("{% set enable_thinking = enable_thinking | default(true) %}{{ enable_thinking }}", True),
        ("{% macro f() %}{{ enable_thinking }}{% endmacro %}{{ f() }}", True),
        ("{# enable_thinking #}say enable_thinking to think{{ messages[0]['enable_thinking'] }}", False),
        ("{% set enable_thinking = false %}{{ enable_thinking }}", False),
    ],
)
def test_whether_a_template_knows_thinking(model: Model, template: str, knows: bool) -> None:
    assert model.chat(template=template).thinking is knows


def test_template_arguments_of_one_reply(model: Model) -> None:
    chat = model.chat(template="{{ name }}{{ other }}", template_args={"name": "the ", "other": "was"}, **GREEDY)
    user = [{"role": "user", "content": "x"}]
    assert chat.reply(user, template_args={"name": "he "}).completion().text == model.generate("he was", **GREEDY).text
    assert chat.send("x", template_args={"other": "is"}).text == model.generate("the is", **GREEDY).text
    assert chat.send("x").text == model.generate("the was", **GREEDY).text


def test_options_of_a_chat_and_of_a_message(model: Model) -> None:
    chat = model.chat(**GREEDY)
    assert len(chat.send("the").tokens) == 8
    assert len(chat.send("the", max_tokens=3).tokens) == 3
    for wrong in ({"temperature": 1}, {"temp": -1}):
        with pytest.raises(OptionError):
            model.chat(**wrong)


def test_a_template_of_ones_own(model: Model) -> None:
    args = {"messages": 0, "self": 1, "tokenizer": 2, "template": 3, "name": "the", "add_generation_prompt": False}
    named = model.chat(template="{{ name }}{{ messages[-1].content }}", template_args=args, **GREEDY)
    assert named.send(" was").text == model.generate("the was", **GREEDY).text


def test_a_built_in_template_by_its_name(model: Model) -> None:
    rendered = model.chat(template="chatml").inspect([{"role": "user", "content": "the"}]).text
    assert rendered == "<|im_start|>user\nthe<|im_end|>\n<|im_start|>assistant\n"


def test_a_template_that_would_be_the_same_for_all_messages_is_a_slip(model: Model) -> None:
    with pytest.raises(OptionError, match=r"template chatlm is no Jinja2 source, .* built in: .*chatml"):
        model.chat(template="chatlm")


def test_templates_that_cannot_be_used(model: Model, model_file: ModelFile) -> None:
    with pytest.raises(EdgeLLMError, match="template is not valid: line 1") as error:
        model.chat(template="{{ messages")
    assert "\n" not in str(error.value)
    refusing = model.chat(template="{{ raise_exception('only two roles\nhere') }}")
    with pytest.raises(EdgeLLMError, match="template failed: only two roles") as error:
        refusing.send("x")
    assert "\n" not in str(error.value)
    assert said(refusing) == []
    with Model.open(model_file(**TINY), threads=1) as base, pytest.raises(EdgeLLMError, match="has no chat template"):
        base.chat()
