"""Sequences that llama.cpp's requests left: only new tokens are computed, and few sequences are kept."""

from itertools import takewhile

from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.llamacpp.kept_sequences import MAX_SEQUENCES, MIN_FORK_TOKENS, KeptSequences
from support.stateless import Sequence


def common(one: list[int], other: list[int]) -> int:
    return len(list(takewhile(lambda pair: pair[0] == pair[1], zip(one, other, strict=False))))


class Reader:
    """Reads prompts as a generation does, on sequences without a state; `held`: all tokens that were stored."""

    def __init__(self, new: type[Sequence] = Sequence) -> None:
        self.cache = KeptSequences(new)
        self.held: list[list[int]] = []

    def read(self, prompt: list[int], reply: list[int] | None = None) -> int:
        """The number of cached tokens of a prompt."""
        sequence = self.cache.begin(prompt)
        cached = len(sequence)
        assert sequence.tokens == prompt[:cached]
        sequence.tokens += [*prompt[cached:], *(reply or [])]
        self.held.append(list(sequence.tokens))
        self.cache.retire(sequence)
        return cached


def text(n: int, length: int) -> list[int]:
    """A message that has nothing in common with those of another number."""
    return [n] * length


lengths = st.integers(MIN_FORK_TOKENS, 40)


@given(st.lists(st.tuples(st.integers(0, 30), lengths, lengths), max_size=MAX_SEQUENCES - 1))
@settings(deadline=None)
def test_everything_read_before_is_there(steps: list[tuple[int, int, int]]) -> None:
    """Each step continues from any node of the tree, with a new message and reply."""
    reader, nodes = Reader(), [[0]]
    for number, (parent, asked, replied) in enumerate(steps, 1):
        prompt = nodes[parent % len(nodes)] + text(2 * number, asked)
        best = max((common(prompt, held) for held in reader.held), default=0)
        assert reader.read(prompt, text(2 * number + 1, replied)) == best
        nodes += [prompt, prompt + text(2 * number + 1, replied)]
    for held in reversed(reader.held):
        assert reader.read(held[:-1]) == len(held) - 2  # the last one's logits are asked for


def test_a_linear_conversation_needs_one_sequence() -> None:
    reader, prompt = Reader(), [0]
    for number in range(1, 20):
        prompt = prompt + text(number, 20)
        reader.read(prompt, text(99, 20))
        prompt += text(99, 17)  # the template leaves out what a reply ends with
    reader.cache.begin([])
    assert len(reader.cache._kept) == 1


class Coarse(Sequence):
    """A sequence that goes back to multiples of 50 tokens alone, as one with checkpoints does."""

    def fork(self) -> "Coarse":
        child = Coarse()
        child.tokens = list(self.tokens)
        return child

    def reach(self, n: int) -> int:
        return len(self) if n >= len(self) else n // 50 * 50

    def trim(self, n: int) -> int:
        return super().trim(self.reach(n))


def test_a_sequence_is_kept_whose_end_would_cost_many_tokens() -> None:
    """Few tokens would be lost, but they could be computed from the last checkpoint alone."""
    reader = Reader(Coarse)
    prompt = text(1, 100)
    assert reader.read(prompt, text(2, 4)) == 0
    assert reader.read(prompt[:98] + text(3, 20)) == 50
    assert reader.read(prompt + text(2, 4) + text(4, 20)) == 104
    assert reader.read(prompt[:98] + text(3, 20) + text(5, 9)) == 118, "the sequence that reaches farthest"


def test_the_sequence_that_reaches_farthest_is_taken_not_that_with_the_longest_prefix() -> None:
    reader, near, far, prompt = Reader(Coarse), Coarse(), Coarse(), text(1, 100)
    near.tokens, far.tokens = prompt[:60], prompt[:99] + text(2, 10)
    reader.cache._kept += [near, far]
    assert reader.read(prompt) == 60, "of the other sequence 50 tokens could be kept"


def test_the_most_recently_used_sequences_are_kept() -> None:
    reader = Reader()
    for number in range(1, MAX_SEQUENCES + 3):
        reader.read(text(number, 50))
        assert reader.read(text(1, 50)) == 49
    assert [reader.read(text(number, 50)) for number in (MAX_SEQUENCES + 2, MAX_SEQUENCES + 1)] == [49, 49]
    assert reader.read(text(2, 50)) == 0
