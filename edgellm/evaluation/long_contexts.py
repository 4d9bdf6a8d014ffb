"""Suites of long contexts: a fact to find in a long text, and a list to copy. Both are made from a seed.

Lengths are tokens of the text by the tokenizer of the model. Texts are the same for a seed, a length and a tokenizer.
"""

from collections.abc import Callable, Iterator, Sequence
from random import Random

from edgellm.errors import OptionError
from edgellm.evaluation.cases import Case
from edgellm.text.tokenizer import Tokenizer

DEPTHS = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Where in the text the fact stands: 0 is its beginning, 1 its end."""

FACTS_PER_DEPTH = 2
LISTS_PER_LENGTH = 4

NEEDLE_LENGTHS = (1000, 4000, 16_000)
COPY_LENGTHS = (250, 1000)
"""Lengths by default, as far as they fit the context."""

_ROOM = 256
"""Tokens of the context that are left for the question, the template and a short reply; at most half of it."""

_SHORTEST = 32
"""The shortest text by default."""

_PLACES = (
    "Amber Bay",
    "Birch Hill",
    "Copper Creek",
    "Dune Park",
    "Elm Cross",
    "Fern Valley",
    "Grey Harbor",
    "Iron Bridge",
)
_SUBJECTS = ("the baker", "an old teacher", "the gardener", "a young painter", "the postman", "the doctor", "a farmer")
_VERBS = (
    "walked past",
    "talked about",
    "looked for",
    "wrote about",
    "painted",
    "remembered",
    "sat beside",
    "dreamed of",
)
_OBJECTS = (
    "the river",
    "a small garden",
    "the market",
    "an empty house",
    "the railway",
    "a wooden boat",
    "the library",
)
_TIMES = (
    "in the morning",
    "after the rain",
    "on a warm day",
    "before dinner",
    "late in autumn",
    "every Sunday",
    "at noon",
)
_WORDS = ("apple", "brook", "cedar", "delta", "ember", "field", "heron", "inlet", "jetty", "lemon", "maple", "pearl")


def needle_cases(tokenizer: Tokenizer, ctx: int, lengths: Sequence[int] | None, seed: int) -> list[Case]:
    """Cases of a number that is told once in a long text, for each length and depth.

    `lengths` None stands for those of `NEEDLE_LENGTHS` that fit. Raises OptionError for a length that does not fit.
    """
    chosen = _fitting(lengths, NEEDLE_LENGTHS, ctx, 1)
    return [case for length in chosen for case in _needles(tokenizer, length, seed)]


def copy_cases(tokenizer: Tokenizer, ctx: int, lengths: Sequence[int] | None, seed: int) -> list[Case]:
    """Cases of a list that is to be repeated exactly, some for each length; see `needle_cases`."""
    chosen = _fitting(lengths, COPY_LENGTHS, ctx, 2)
    return [_copy(tokenizer, length, number, seed) for length in chosen for number in range(LISTS_PER_LENGTH)]


def _fitting(lengths: Sequence[int] | None, defaults: Sequence[int], ctx: int, times: int) -> Sequence[int]:
    """The lengths, of which the context must hold the text `times` times."""
    most = max(ctx - _ROOM, ctx // 2) // times
    if most < _SHORTEST:
        raise OptionError(f"a context of {ctx:,} tokens is too small: choose one of {2 * times * _SHORTEST} or more")
    if lengths is None:
        return [length for length in defaults if length <= most] or [most]
    if max(lengths) > most:
        advice = f"give lengths of at most {most:,}, or choose a larger context"
        raise OptionError(f"{max(lengths):,} tokens do not fit the context of {ctx:,} tokens: {advice}")
    return lengths


def _needles(tokenizer: Tokenizer, length: int, seed: int) -> Iterator[Case]:
    sentences = _up_to(tokenizer, length, _sentence, Random(f"{seed} needle {length}"))
    for depth in DEPTHS:  # in this order a prompt has a long prefix in common with the one before
        for number in range(FACTS_PER_DEPTH):
            random = Random(f"{seed} needle {length} {depth} {number}")
            place, secret = random.choice(_PLACES), str(random.randrange(10_000, 100_000))
            at = round(depth * len(sentences))
            text = " ".join([*sentences[:at], f"The secret number of {place} is {secret}.", *sentences[at:]])
            prompt = f"{text}\n\nWhat is the secret number of {place}? Reply with the number alone."
            groups = f"{length:,} tokens", f"depth {depth:.0%}"
            message = {"role": "user", "content": prompt}
            yield Case(f"needle-{length}-{depth:.0%}-{number + 1}", [message], "contains", secret, groups=groups)


def _copy(tokenizer: Tokenizer, length: int, number: int, seed: int) -> Case:
    lines = _up_to(tokenizer, length, _line, Random(f"{seed} copy {length} {number}"))
    listed = "\n".join(lines)
    prompt = f"Repeat this list exactly, line by line. Write nothing else.\n\n{listed}"
    return Case(
        f"copy-{length}-{number + 1}",
        [{"role": "user", "content": prompt}],
        "copy",
        listed,
        groups=(f"{length:,} tokens",),
        extra_tokens=len(tokenizer.encode(listed)),
    )


def _up_to(tokenizer: Tokenizer, length: int, make: Callable[[Random, int], str], random: Random) -> list[str]:
    """Pieces of text with about `length` tokens together, one at least."""
    pieces, tokens = [make(random, 0)], 0
    while (tokens := tokens + len(tokenizer.encode(f" {pieces[-1]}"))) < length:
        pieces.append(make(random, len(pieces)))
    return pieces[:-1] or pieces


def _sentence(random: Random, number: int) -> str:
    subject, verb, thing, time = (random.choice(words) for words in (_SUBJECTS, _VERBS, _OBJECTS, _TIMES))
    return f"{time[0].upper()}{time[1:]} {subject} {verb} {thing}."


def _line(random: Random, number: int) -> str:
    return f"{number + 1}. {random.choice(_WORDS)}-{random.choice(_WORDS)}-{random.randrange(1000, 10_000)}"
