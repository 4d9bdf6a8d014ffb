"""Drafts from the text itself: by hand, and against a comparison token by token."""

from hypothesis import given
from hypothesis import strategies as st

from edgellm.speculation.prompt_lookup import NGRAM_SIZES, DraftTokens, PromptLookup

# Few tokens, so that they repeat, whose bytes hide each other's in the midst of two.
TOKENS = st.lists(st.sampled_from([0, 1, 256, 65536, 1 << 24, 0x01010101, 0x7FFFFFFF]), max_size=40)


def searched(text: list[int], most: int) -> DraftTokens:
    """The draft, by comparing lists."""
    for matched in reversed(NGRAM_SIZES):
        for start in range(len(text) - 1, matched - 1, -1):
            if len(text) > matched and text[start - matched : start] == text[-matched:]:
                followed = text[start:]
                return DraftTokens([followed[i % len(followed)] for i in range(most)], matched)
    return DraftTokens([], 0)


def test_by_hand() -> None:
    assert PromptLookup([1, 2, 3, 9, 8, 1, 2, 3]).draft(2) == ([9, 8], 3)
    assert PromptLookup([1, 2, 3, 4]).draft(7) == ([], 0)
    assert PromptLookup([5, 9, 5, 7, 5]).draft(1) == ([7], 1), "the last of several"
    assert PromptLookup([1, 2, 3, 4, 8, 2, 3, 4, 9, 1, 2, 3, 4]).draft(1) == ([8], 4), "the longest of several"
    eight, others = [1, 2, 3, 4, 5, 6, 7, 8], [9, 5, 6, 7, 8]
    assert PromptLookup([*eight, 10, *others, 11, *eight]).draft(1) == ([10], 8), "longer than the last four"
    assert PromptLookup([6, 4, 5, 4, 5]).draft(5) == ([4, 5, 4, 5, 4], 2), "a text that repeats itself goes on"
    assert PromptLookup([]).draft(3) == ([], 0)


@given(TOKENS, TOKENS, st.integers(1, 9))
def test_the_draft_is_the_last_continuation(text: list[int], more: list[int], most: int) -> None:
    lookup = PromptLookup(text)
    assert lookup.draft(most) == searched(text, most)
    for token in [*more, *text]:
        lookup.accept(token)
    assert lookup.draft(most) == searched(text + more + text, most)
