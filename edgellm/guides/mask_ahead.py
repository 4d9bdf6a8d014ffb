"""Masks of a guide that a thread of its own computes, while the engine computes the logits they are for."""

from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Self

from edgellm.guides.guide import Guide, Mask


class MaskAhead:
    """Computes the next mask of a guide in the background. Between `start` and `take` nothing may use the guide.

    Use it as a context manager: at the end nothing is computed any more.
    """

    def __init__(self, guide: Guide) -> None:
        self._guide, self._executor = guide, ThreadPoolExecutor(1, "guide")
        self._mask: Future[Mask | None] | None = None

    def start(self) -> None:
        """Begin to compute the mask of the next token."""
        self._mask = self._executor.submit(self._guide.allowed)

    def take(self) -> Mask | None:
        """The mask that was begun last. Raises what `Guide.allowed` raises."""
        assert self._mask is not None
        return self._mask.result()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: object, trace: TracebackType | None) -> None:
        self._executor.shutdown()
