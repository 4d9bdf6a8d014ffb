"""Thinking before a guided answer: where it ends, how long it may be, and what a model may choose before it."""

import numpy as np
import pytest

from edgellm import Tokenizer
from edgellm.errors import OptionError
from edgellm.guides.closing import ClosingText
from edgellm.guides.guide import Guide, Mask
from edgellm.guides.opened import OpenedGuide
from edgellm.guides.thinking import ReplyStart, gated
from edgellm.text import harmony
from edgellm.text.thinking_tags import ThinkingTags, thinking_tags
from support import SHARED
from support.guided_walk import Guides
from support.make_vocab import HARMONY
from support.tiny_vocab import write_bpe

TAGS = ThinkingTags("<think>", "</think>", "\n", "\n\n")


class Reply:
    """A reply to a prompt that ends with a text; its answer is `yes` or `no`."""

    def __init__(
        self, guides: Guides, prompt: str, limit: int | None = None, begun: str = "", free: bool = False
    ) -> None:
        self.tokenizer, self.text = guides.tokenizer, ""
        start = ReplyStart(self._ids(prompt + begun), begun, TAGS, harmony=False)
        answer = None if free else guides.new("choices", '["yes", "no"]')
        guide = gated(answer, start, limit, guides.tokenizer, guides.tokenizer.n_vocab)
        assert guide
        self.guide: Guide = guide

    def _ids(self, text: str) -> list[int]:
        return ids_of(self.tokenizer, text)

    def allows(self, text: str) -> bool:
        """Whether the first token of a text may come next."""
        (token, *_) = self._ids(text)
        if forced := self.guide.forced():
            return forced[0] == token
        mask = self.guide.allowed()
        return mask is None or bool(mask[token])

    def follow(self, text: str) -> "Reply":
        for token in self._ids(text):
            assert self.allows(self.tokenizer.decode([token], special=True) or "?"), self.text
            self.guide.accept(token)
            self.text += self.tokenizer.decode([token], special=True)
        return self

    def forced(self) -> str:
        """The text that is forced, which follows."""
        text = ""
        while ids := self.guide.forced():
            for token in ids:
                self.guide.accept(token)
            text += b"".join(self.tokenizer.token_bytes(i, special=True) for i in ids).decode()
        return text


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """The ids of a text with marks."""
    texts = enumerate(tokenizer.vocabulary.texts)
    marks = {text.decode(): i for i, text in texts if text[:1] == b"<" and len(text) > 2}
    return tokenizer.encode_parts(tokenizer.split(text, marks), first=False)


def end(guides: Guides) -> str:
    return guides.tokenizer.vocabulary.texts[min(guides.tokenizer.eog_ids)].decode()


def test_a_model_may_think_before_it_answers(guides: Guides) -> None:
    reply = Reply(guides, "<|mark|>").follow("<think>what {now}")
    assert (reply.guide.begun, reply.guide.complete) == (False, False)
    assert not reply.allows(end(guides)), "no reply ends inside of a thought"
    reply.follow("</think>")
    assert reply.forced() == "\n\n"
    assert not reply.allows("<think>")
    assert not reply.allows("maybe")
    assert not reply.guide.begun
    reply.follow("y")
    assert reply.guide.begun
    assert reply.forced() == "es"
    assert (reply.guide.complete, reply.guide.ended) == (True, True)


def test_a_model_may_answer_at_once(guides: Guides) -> None:
    reply = Reply(guides, "<|mark|>")
    assert all(map(reply.allows, ["<think>", "y", "n"]))
    assert not any(map(reply.allows, ["x", "</think>", end(guides)]))
    reply.follow("n")
    assert reply.forced() == "o"
    assert reply.guide.ended


@pytest.mark.parametrize("prompt", ["<|mark|><think>", "<|mark|><think>\n"])
def test_a_prompt_may_open_the_thought(guides: Guides, prompt: str) -> None:
    reply = Reply(guides, prompt).follow("x</think>")
    assert reply.forced() == "\n\n"
    assert reply.allows("y")


@pytest.mark.parametrize("prompt", ["<|mark|><think>\n\n</think>\n\n", "<|mark|><think></think>"])
def test_a_prompt_may_leave_out_the_thought(guides: Guides, prompt: str) -> None:
    reply = Reply(guides, prompt)
    assert not reply.allows("<think>")
    assert reply.allows("y")


def test_a_user_who_writes_of_tags_opens_no_thought(guides: Guides) -> None:
    assert Reply(guides, "what does <think> mean?<|mark|>").allows("y")


def test_a_thought_is_ended_at_its_limit(guides: Guides) -> None:
    reply = Reply(guides, "<|mark|>", limit=3).follow("<think>abc")
    assert reply.forced() == "\n</think>\n\n"
    assert reply.allows("y")
    reply = Reply(guides, "<|mark|><think>", limit=3).follow("ab</think>")
    assert reply.forced() == "\n\n", "the model's own end comes first"
    reply = Reply(guides, "<|mark|><think>", limit=0)
    assert reply.forced() == "\n</think>\n\n"
    reply = Reply(guides, "<|mark|>", limit=0)
    assert not reply.allows("<think>")


def test_a_limit_alone_holds_an_answer_to_nothing(guides: Guides) -> None:
    reply = Reply(guides, "<|mark|>", limit=2, free=True)
    assert (reply.guide.allowed(), reply.guide.complete) == (None, True)
    reply.follow("<think>ab")
    assert reply.forced() == "\n</think>\n\n"
    reply.follow("anything <think>x</think> " + end(guides))
    assert not reply.guide.ended
    assert Reply(guides, "<|mark|>", limit=2, free=True).follow("no thought at all").forced() == ""


def test_the_beginning_of_a_reply_may_be_a_thought_and_no_answer(guides: Guides) -> None:
    reply = Reply(guides, "<|mark|>", begun="<think>\nso")
    reply.follow("x</think>")
    assert reply.forced() == "\n\n"
    for begun in ("ye", "<think>\nso\n</think>\n\nye"):
        with pytest.raises(OptionError, match="begun is the beginning of an answer"):
            Reply(guides, "<|mark|>", begun=begun)
    assert Reply(guides, "<|mark|>", begun="ye", limit=3, free=True).guide.allowed() is None


def test_a_limit_alone_ends_a_thought_that_begins_nevertheless(guides: Guides) -> None:
    reply = Reply(guides, "<|mark|>", limit=0, free=True)
    assert reply.guide.allowed() is None
    assert reply.follow("<think>").forced() == "\n</think>\n\n"


def test_no_thinking_is_known_without_tags(guides: Guides) -> None:
    answer = guides.new("choices", '["yes"]')
    assert gated(answer, None, 3, guides.tokenizer, 10) is answer
    start = ReplyStart(ids_of(guides.tokenizer, "x"), "", None, harmony=False)
    assert gated(answer, start, 3, guides.tokenizer, 10) is answer
    assert gated(None, start, None, guides.tokenizer, 10) is None


@pytest.fixture(scope="module")
def spelled(tmp_path_factory: pytest.TempPathFactory) -> Guides:
    """A vocabulary that has no token for the tags, but some that end within one and go on."""
    merges = ["< /", "t h", "th i", "thi n", "thin k", "k >", "> Ċ", "> y", "</ think", "Ċ Ċ"]
    path = tmp_path_factory.mktemp("spelled") / "m.gguf"
    special = {"<|end|>": 3, "<|mark|>": 3}
    return Guides(Tokenizer.open(write_bpe(path, merges, special, eos_token_id=256 + len(merges))))


def test_tags_may_be_spelled_by_several_tokens(spelled: Guides) -> None:
    """No token ends the thought and begins the answer."""
    reply = Reply(spelled, "<|mark|>")
    assert all(map(reply.allows, ["<", "y", "n"]))
    reply.follow("<")
    assert reply.forced() == "think>"
    reply.follow("x")
    texts = spelled.tokenizer.vocabulary.texts
    for token in spelled.tokenizer.encode("</think"):
        reply.guide.accept(token)
    mask = reply.guide.allowed()
    assert mask is not None
    assert mask[texts.index(b">")]
    assert not mask[texts.index(b">y")]
    assert not mask[texts.index("\u003e\u010a".encode())], "white space behind it is written for the model"
    assert mask[texts.index(b"k>")], "it is no end here"
    reply.guide.accept(texts.index(b">"))
    assert reply.forced() == "\n\n"
    assert reply.allows("y")


def test_a_text_that_begins_as_a_tag_is_an_answer(spelled: Guides) -> None:
    start = ReplyStart(ids_of(spelled.tokenizer, "<|mark|>"), "", TAGS, harmony=False)
    tokenizer = spelled.tokenizer
    guide = gated(spelled.new("regex", "<b>[yn]"), start, None, tokenizer, tokenizer.n_vocab)
    assert guide
    guide.accept(tokenizer.encode("<")[0])
    assert guide.begun
    assert guide.forced() == tokenizer.encode("b>")[: len(guide.forced())]


class Recorded:
    """A guide of one token, which keeps what it accepts."""

    begun, complete, ended = False, False, False

    def __init__(self, token: int, vocab: int) -> None:
        self.mask, self.accepted = np.arange(vocab) == token, list[int]()

    def allowed(self) -> Mask:
        return self.mask

    def accept(self, token: int) -> None:
        self.accepted.append(token)

    def forced(self) -> list[int]:
        return []


@pytest.mark.parametrize("limit", [None, 9])
@pytest.mark.parametrize("before", ["", "<", "<thi", "<think>", "<think>x", "so <b> "])
def test_an_opener_begins_the_answer_wherever_it_comes(
    spelled: Guides, guides: Guides, limit: int | None, before: str
) -> None:
    """Within a thought, within a tag that is spelled, and in text, of which nothing is held to anything."""
    for each in (spelled, guides):
        tokenizer = each.tokenizer
        vocab = tokenizer.n_vocab
        (opener,) = ids_of(tokenizer, "<|mark|>")
        answer = Recorded(opener, vocab)
        start = ReplyStart(ids_of(tokenizer, "<|mark|>"), "", TAGS, harmony=False)
        free, openers = OpenedGuide(answer, frozenset([opener])), frozenset([opener])
        guide = gated(free, start, limit, tokenizer, vocab, openers, openers, free=True) if limit else free
        assert guide
        for token in ids_of(tokenizer, before):
            assert (guide.allowed(), guide.forced(), guide.complete) == (None, [], True)
            guide.accept(token)
        guide.accept(opener)
        assert answer.accepted == [opener]
        assert (guide.begun, guide.complete, guide.allowed()) == (True, False, answer.mask)


def test_a_thought_has_no_mark_but_those_that_begin_the_answer(guides: Guides) -> None:
    tokenizer, (mark, *_) = guides.tokenizer, ids_of(guides.tokenizer, "<|mark|>")
    (other,) = ids_of(tokenizer, "<|im_end|>")
    answer = Recorded(mark, tokenizer.n_vocab)
    start = ReplyStart(ids_of(tokenizer, "<think>"), "", TAGS, harmony=False)
    guide = gated(answer, start, None, tokenizer, tokenizer.n_vocab, frozenset([mark, other]), frozenset([mark]))
    assert guide
    guide.accept(ids_of(tokenizer, "x")[0])
    mask = guide.allowed()
    assert mask is not None
    assert (mask[mark], mask[other]) == (True, False)
    guide.accept(mark)
    assert (answer.accepted, guide.begun) == ([mark], True)


def test_the_end_of_a_thought_is_found_however_it_is_cut() -> None:
    closing = b"</think>"
    for cut in range(1, len(closing)):
        pieces = [closing[:cut], closing[cut:], closing[cut:] + b"y", b"<", b"x" + closing, b"x" + closing + b"y"]
        ended = ClosingText(closing, pieces)
        everything = np.ones(len(pieces), np.bool_)
        assert ended.forbid(everything).tolist() == [True, True, True, True, True, False]
        assert not ended.push(3)
        assert not ended.push(0)
        assert ended.forbid(everything).tolist() == [True, True, False, True, True, False]
        assert ended.push(1)
        assert ClosingText(closing, pieces).push(4)


class TestHarmony:
    """The channels of gpt-oss."""

    @pytest.fixture(scope="class")
    @classmethod
    def guides(cls, tmp_path_factory: pytest.TempPathFactory) -> Guides:
        special = dict.fromkeys(["<|end|>", *HARMONY], 3)
        path = tmp_path_factory.mktemp("harmony") / "m.gguf"
        merges = ["f i", "fi n", "a n", "an a"]
        return Guides(Tokenizer.open(write_bpe(path, merges, special, eos_token_id=257 + len(merges))))

    def reply(self, guides: Guides, limit: int | None = None, begun: str = "", free: bool = False) -> Reply:
        reply = Reply.__new__(Reply)
        reply.tokenizer, reply.text = guides.tokenizer, ""
        prompt = "<|start|>user<|message|>hi<|end|><|start|>assistant"
        if begun:
            prompt += "".join(text for text, _ in harmony.continuation(begun))
        start = ReplyStart(ids_of(guides.tokenizer, prompt), begun, None, harmony=True)
        answer = None if free else guides.new("choices", '["yes", "no"]')
        guide = gated(answer, start, limit, guides.tokenizer, guides.tokenizer.n_vocab)
        assert guide
        reply.guide = guide
        return reply

    def test_messages_of_analysis_come_before_the_final_one(self, guides: Guides) -> None:
        reply = self.reply(guides)
        for _ in range(2):
            assert reply.forced() == "<|channel|>"
            assert not any(map(reply.allows, ["<|message|>", "c", "y"]))
            reply.follow("ana")
            assert reply.forced() == "lysis<|message|>"
            assert not any(map(reply.allows, ["<|channel|>", "<|start|>", "<|message|>", "<|return|>", "<|call|>"]))
            reply.follow("so<|end|>")
            assert reply.guide.forced() == ids_of(guides.tokenizer, "<|start|>assistant")
            for token in reply.guide.forced():
                reply.guide.accept(token)
        assert reply.forced() == "<|channel|>"
        reply.follow("fin")
        assert reply.forced() == "al<|message|>"
        assert (reply.guide.begun, reply.guide.complete) == (False, False)
        assert not reply.allows("<|return|>")
        reply.follow("n")
        assert reply.forced() == "o"
        assert (reply.guide.begun, reply.guide.ended) == (True, True)

    def test_a_thought_is_ended_at_its_limit(self, guides: Guides) -> None:
        reply = self.reply(guides, limit=2)
        reply.forced()
        reply.follow("ana")
        reply.forced()
        reply.follow("xy")
        assert reply.forced() == "<|end|><|start|>assistant<|channel|>final<|message|>"
        assert reply.allows("y")
        assert self.reply(guides, limit=0).forced() == "<|channel|>final<|message|>"

    def test_several_thoughts_share_a_limit(self, guides: Guides) -> None:
        reply = self.reply(guides, limit=2)
        reply.forced()
        reply.follow("ana")
        reply.forced()
        reply.follow("x<|end|>")
        assert reply.forced() == "<|start|>assistant<|channel|>final<|message|>", "the end counts as well"

    def test_a_limit_alone_holds_an_answer_to_nothing(self, guides: Guides) -> None:
        reply = self.reply(guides, limit=3, free=True)
        reply.follow("<|channel|>analysis<|message|>ab<|end|><|start|>assistant<|channel|>analysis<|message|>")
        assert reply.forced() == "<|end|><|start|>assistant<|channel|>final<|message|>"
        reply.follow("anything<|return|>")
        call = self.reply(guides, limit=1, free=True).follow("<|channel|>commentary to=x<|message|>{}<|call|>")
        assert call.forced() == ""

    def test_the_beginning_of_a_reply_may_be_a_thought(self, guides: Guides) -> None:
        reply = self.reply(guides, begun="<think>\nso")
        reply.follow("x<|end|>")
        assert reply.forced().startswith("<|start|>assistant<|channel|>")


@pytest.mark.parametrize(
    ("file", "tags"),
    [
        ("Qwen-Qwen3-0.6B.jinja", TAGS),
        ("deepseek-ai-DeepSeek-R1-Distill-Llama-8B.jinja", TAGS),
        ("HuggingFaceTB-SmolLM3-3B.jinja", TAGS),
        ("GLM-4.6.jinja", TAGS),
        ("Qwen-Qwen2.5-7B-Instruct.jinja", None),
        ("google-gemma-2-2b-it.jinja", None),
    ],
)
def test_tags_are_known_from_the_template(file: str, tags: ThinkingTags | None) -> None:
    if not SHARED.is_dir():
        pytest.skip("needs the shared data folder beside the project")
    assert thinking_tags((SHARED / "templates" / file).read_text()) == tags


def test_tags_of_other_templates() -> None:
    assert thinking_tags("{{ '[THINK]' }}") == ThinkingTags("[THINK]", "[/THINK]")
    assert thinking_tags("<|channel>thought <channel|>") == ThinkingTags("<|channel>", "<channel|>")
    assert thinking_tags("{{ messages }}") is None
