"""Warnings of models, which tell what they do otherwise than asked, such as not to draft."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from edgellm.errors import EdgeLLMWarning
from edgellm.fmt import printable

_MAX_LENGTH = 1000


@contextmanager
def warnings_to(say: Callable[[str], object]) -> Iterator[None]:
    """A context in which `say` gets each warning of edgellm once, as one line, in the thread where it comes.

    All warnings go where they went before, too.
    """
    said = set[str]()

    def show(message: Warning | str, category: type[Warning], *where: Any, **more: Any) -> None:
        log(message, category, *where, **more)
        text = printable(str(message), _MAX_LENGTH)
        if issubclass(category, EdgeLLMWarning) and text not in said:
            said.add(text)
            say(text)

    with warnings.catch_warnings():
        log, warnings.showwarning = warnings.showwarning, show
        yield
