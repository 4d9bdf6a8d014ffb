"""The protocol of guides."""

from collections.abc import Callable
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

Mask = NDArray[np.bool_]
"""Which tokens are allowed: [vocab]."""


class Guide(Protocol):
    """What may come next in one reply.

    `begun`: the last token is one of the answer; before it the model thinks. `complete`: the answer conforms as it is,
    so a token that ends the reply is allowed. `ended`: nothing can follow it.

    Not for several threads at once. The attributes change in `accept` alone.
    """

    begun: bool
    complete: bool
    ended: bool

    def allowed(self) -> Mask | None:
        """The tokens that may come next; None for all. Raises EdgeLLMError if there is none."""

    def accept(self, token: int) -> None:
        """Append a token that is allowed, or the next one of `forced`."""

    def fork(self) -> "Guide | None":
        """Another guide of the same reply so far; None if it cannot be copied."""

    def forced(self) -> list[int]:
        """The tokens that come next whatever the model computes, as its tokenizer writes them; none if it chooses.

        They belong to the text: they are accepted one after the other, before anything else is.
        """


GuideFactory = Callable[[], Guide]
"""Makes the guide of a new reply."""
