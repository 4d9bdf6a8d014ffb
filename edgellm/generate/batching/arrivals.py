"""Which requests decode at present, and which of them are about to ask for their next token.

A step for eight sequences takes less than twice the time of a step for one, as both read all weights. So a batch waits
a moment for requests that have just been given a token: they sample, and come back. A batch does not wait for a
request that came back late the last time: the program that reads its tokens is slow.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from math import inf
from threading import Event
from time import perf_counter

from edgellm.generate.batching.cancel_flag import CancelFlag

_MOST_WAIT_S = 0.02
_LEAST_WAIT_S = 0.002
"""Bounds of the wait for requests, seconds; between them it is half of the time of a step."""

_ACTIVE_S = 1.0
"""A request decodes at present if it was given a token within this time, seconds."""


class _Request:
    """When a request was given logits, None while it waits for some; and how long it stayed away the last time.

    `number` counts the requests; one that has not `come` yet has `joined` at a time. `rows` are those of its last step.
    """

    def __init__(self, number: int, joined: float) -> None:
        self.number, self.joined, self.come = number, joined, False
        self.given: float | None = None
        self.away, self.rows = 0.0, 1
        self.decodes = False


class Arrivals:
    """The requests that decode. `clock` gives seconds. `changed` is set when one comes back or ends.

    `ended` counts those that have ended.
    """

    def __init__(self, clock: Callable[[], float] = perf_counter) -> None:
        self._clock, self.changed = clock, Event()
        self._requests: dict[CancelFlag, _Request] = {}
        self._patience, self._numbers, self.ended = _LEAST_WAIT_S, count(), 0

    @contextmanager
    def join(self, request: CancelFlag) -> Iterator[None]:
        """Count a request as one that decodes, from its first token on."""
        self._requests[request] = _Request(next(self._numbers), self._clock())
        try:
            yield
        finally:
            del self._requests[request]
            self.ended += 1
            self.tell()

    def came(self, request: CancelFlag) -> None:
        """A request asks for logits."""
        if found := self._requests.get(request):
            found.come = True
            if found.given is not None:
                found.away, found.given = self._clock() - found.given, None
        self.tell()

    def tell(self) -> None:
        """Wake a batch that waits for requests."""
        if not self.changed.is_set():  # which costs a tenth of setting it
            self.changed.set()

    def give(self, request: CancelFlag, seconds: float, rows: int = 1) -> None:
        """A request is given its logits, of a batch of `seconds`, in which it had a step of `rows` rows."""
        self._patience = min(max(seconds / 2, _LEAST_WAIT_S), _MOST_WAIT_S)
        if found := self._requests.get(request):
            others = 0 if found.given is None else found.rows  # of other sequences: a beam search has several
            found.given, found.decodes, found.rows = self._clock(), True, rows + others

    def wait_s(self) -> float:
        """Seconds to wait for the requests that are about to come back; 0 if there are none."""
        soon = [given for each, given in self._given() if given is not None and each.away <= self._patience]
        return max(0.0, max(soon) + self._patience - self._clock()) if soon else 0.0

    def number(self, request: CancelFlag) -> float:
        """The number of a request, in the order in which they came; infinite for one that does not decode."""
        found = self._requests.get(request)
        return found.number if found else inf

    def away(self) -> int:
        """How many requests were given logits and will come back, or have begun and will come. They hold memory."""
        since = self._clock() - _ACTIVE_S
        return sum(
            given > since if given is not None else not each.come and each.joined > since
            for each, given in self._given()
        )

    def decode_rows(self, beside: CancelFlag | None = None) -> int:
        """Rows of a step of all requests that decode at present; `beside` one of them, which does not count."""
        return sum(each.rows for each in self._decoding(beside))

    def decoding(self, beside: CancelFlag) -> int:
        """How many requests other than `beside` decode at present."""
        return sum(1 for _ in self._decoding(beside))

    def _decoding(self, beside: CancelFlag | None) -> Iterator[_Request]:
        since, own = self._clock() - _ACTIVE_S, self._requests.get(beside) if beside else None
        for each, given in self._given():
            if each is not own and each.decodes and (given is None or given > since):
                yield each

    def _given(self) -> list[tuple[_Request, float | None]]:
        # A copy in one step, as other threads add and remove requests meanwhile, and change what they were given.
        return [(each, each.given) for each in list(self._requests.values())]
