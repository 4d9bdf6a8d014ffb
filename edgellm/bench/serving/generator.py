"""The load generator: sends requests at the times of their arrival, or whenever a client is free."""

from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from time import perf_counter, sleep

from edgellm.bench.serving.outcome import Outcome, Status
from edgellm.bench.serving.target import Cancellation, LoadRequest, NoRoomError, RequestCancelledError, Target
from edgellm.errors import EdgeLLMError
from edgellm.system.interrupts import POLL_S, held_interrupts

TICK_S = POLL_S
"""The longest time between two calls of `on_tick`."""

OnTick = Callable[[int, int], None]


class LoadGenerator:
    """One run. `outcomes` are those of the requests that ended so far, in the order of their ends.

    `stalled_s` is the longest time by which a wait of the generator took too long: seconds are a sign that this
    program stood still, and that its latencies are not those of the target.

    The thread that calls `run` computes nothing; each request has a thread. At most `at_once` requests are sent at
    once: the others wait in the order of arrival, and their latency counts this time.
    """

    def __init__(self, target: Target, at_once: int) -> None:
        self.outcomes: list[Outcome] = []
        self.stalled_s = 0.0
        self._target, self._at_once = target, at_once
        self._cancellation = Cancellation()
        self._began = 0.0

    def run(self, requests: Sequence[LoadRequest], on_tick: OnTick, drain_s: float | None = None) -> None:
        """Send all requests and wait for their replies.

        Arrivals never wait for replies. `drain_s` seconds after the last arrival the requests that still run are
        cancelled. `on_tick` gets the numbers of ended requests and of all, several times a second. After Ctrl-C
        requests are cancelled, too, and KeyboardInterrupt goes on.
        """
        self._began = perf_counter()
        with held_interrupts() as check, ThreadPoolExecutor(self._at_once, "load") as pool:

            def tick() -> None:
                check()
                on_tick(len(self.outcomes), len(requests))

            try:
                sent = [self._submit(pool, request, tick) for request in requests]
                end = None if drain_s is None else perf_counter() + drain_s
                while self._wait(sent) and (end is None or perf_counter() < end):
                    tick()
            finally:
                self._cancellation.cancel()
        on_tick(len(self.outcomes), len(requests))
        for each in sent:
            each.result()  # raises what no request may raise

    def _submit(self, pool: ThreadPoolExecutor, request: LoadRequest, tick: Callable[[], None]) -> Future[None]:
        """Hand a request to a thread once it arrives."""
        while request.arrival_s is not None and (left := request.arrival_s - self._now()) > 0:
            pause = min(left, TICK_S)
            begin = self._now()
            sleep(pause)
            self._check_stall(begin, pause)
            tick()
        return pool.submit(self._complete, request)

    def _wait(self, sent: Sequence[Future[None]]) -> bool:
        """Wait for replies, TICK_S at most; whether some are missing."""
        begin = self._now()
        done = wait(sent, TICK_S)
        self._check_stall(begin, TICK_S)
        return bool(done.not_done)

    def _check_stall(self, begin: float, expected_s: float) -> None:
        self.stalled_s = max(self.stalled_s, self._now() - begin - expected_s)

    def _complete(self, request: LoadRequest) -> None:
        pieces, sent = list[float](), self._now()
        status, reply, error = Status.COMPLETED, None, ""
        try:
            reply = self._target.complete(request, lambda: pieces.append(self._now()), self._cancellation)
        except RequestCancelledError:
            status = Status.UNFINISHED
        except NoRoomError as refusal:
            status, error = Status.REFUSED, str(refusal)
        except EdgeLLMError as failure:
            status, error = Status.FAILED, str(failure)
        arrival = sent if request.arrival_s is None else request.arrival_s
        times = (arrival, sent, self._now(), tuple(pieces))
        self.outcomes.append(Outcome(status, *times, request.tokens, reply, error))

    def _now(self) -> float:
        return perf_counter() - self._began


def warm_up(target: Target, requests: Sequence[LoadRequest], at_once: int) -> float:
    """Send requests at once; returns the seconds until all have their replies. Raises the first error."""
    generator = LoadGenerator(target, at_once)
    generator.run(requests, lambda done, total: None)
    for outcome in generator.outcomes:
        if outcome.error:
            raise EdgeLLMError(outcome.error)
    return max(outcome.ended_s for outcome in generator.outcomes)
