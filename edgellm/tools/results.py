"""Results of tools that are programs of others, as text for the model: limited in length and safe for a terminal."""

from edgellm.fmt import size
from edgellm.terminal.sanitize import sanitize_for_file

MAX_RESULT = 20_000
"""Characters of a result that the model gets: some 5,000 tokens of English."""

MAX_RESULT_BYTES = 4 * MAX_RESULT
"""As many bytes of UTF-8 hold MAX_RESULT characters, whatever these are."""


def result_text(text: str, nbytes: int) -> str:
    """The first MAX_RESULT characters, and a line that says so if there are more.

    `nbytes` is the size of the whole result, of which `text` may be the beginning. Control characters become symbols,
    and characters that change the direction of text are removed.
    """
    if len(text) <= MAX_RESULT and nbytes <= MAX_RESULT_BYTES:
        return sanitize_for_file(text)
    shown = sanitize_for_file(text[:MAX_RESULT])
    return f"{shown}\n[cut here: these are the first {MAX_RESULT:,} characters of {size(nbytes)}]"
