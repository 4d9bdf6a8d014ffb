"""Replies split into thought and answer while they come: as whole ones are, however they are cut."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgellm.server.thoughts import ThoughtSplitter, splitter_for
from edgellm.text.thought import Thought

PIECES = st.sampled_from(["<think>", "</think>", "<thi", "nk>", "</", "\n", " ", "<", "x", "é", "think>", "\n\n"])


def split(pieces: list[str], splitter: ThoughtSplitter) -> tuple[str, str]:
    parts = [*map(splitter.push, pieces), splitter.flush()]
    return "".join(part[0] for part in parts), "".join(part[1] for part in parts)


@given(st.lists(PIECES, max_size=12))
def test_any_cut_gives_what_a_whole_reply_gives(pieces: list[str]) -> None:
    whole = Thought.of("".join(pieces))
    assert split(pieces, splitter_for(None)) == (whole.thought or "", whole.answer or "")


@given(st.lists(PIECES, max_size=12))
def test_a_thought_that_the_prompt_began(pieces: list[str]) -> None:
    whole = Thought.of("<think>" + "".join(pieces))
    assert split(pieces, splitter_for(None, inside=True)) == (whole.thought or "", whole.answer or "")


def test_a_thought_comes_before_its_end() -> None:
    splitter = splitter_for(None)
    assert splitter.push("<think>\nHm") == ("Hm", "") and splitter.thinking
    assert splitter.push(" so</th") == (" so", "")
    assert splitter.push("ink>\n\nYes") == ("", "Yes") and not splitter.thinking


@pytest.mark.parametrize(
    ("template", "tag"), [("{{ '[THINK]' }}", "[THINK]"), ("<seed:think>", "<seed:think>"), ("plain", "<think>")]
)
def test_the_tags_are_those_of_the_template(template: str, tag: str) -> None:
    closing = tag[0] + "/" + tag[1:]
    assert split([f"{tag}a{closing}b"], splitter_for(template)) == ("a", "b")
