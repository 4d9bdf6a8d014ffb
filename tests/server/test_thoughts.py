"""Replies split into thought and answer while they come: as whole ones are, however they are cut."""

from hypothesis import given
from hypothesis import strategies as st

from edgellm.server.thoughts import ThoughtSplitter
from edgellm.text.thought import Thought

PIECES = st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", "\n", " ", "<", "x", "é", "think>", "\n\n"])


def split(pieces: list[str], splitter: ThoughtSplitter) -> tuple[str, str]:
    parts = [*map(splitter.push, pieces), splitter.flush()]
    return "".join(part[0] for part in parts), "".join(part[1] for part in parts)


@given(st.lists(PIECES, max_size=12))
def test_any_cut_gives_what_a_whole_reply_gives(pieces: list[str]) -> None:
    whole = Thought.of("".join(pieces))
    assert split(pieces, ThoughtSplitter()) == (whole.thought or "", whole.answer or "")


@given(st.lists(PIECES, max_size=12))
def test_a_thought_that_the_prompt_began(pieces: list[str]) -> None:
    whole = Thought.of("<think>" + "".join(pieces))
    assert split(pieces, ThoughtSplitter(inside=True)) == (whole.thought or "", whole.answer or "")


def test_a_thought_comes_before_its_end() -> None:
    splitter = ThoughtSplitter()
    assert splitter.push("<think>\nHm") == ("Hm", "") and splitter.thinking
    assert splitter.push(" so</th") == (" so", "")
    assert splitter.push("ink>\n\nYes") == ("", "Yes") and not splitter.thinking
