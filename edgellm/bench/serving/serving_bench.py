"""A benchmark of serving: warms up what answers, and runs loads on it."""

from dataclasses import asdict
from typing import Any

from edgellm.bench.serving.figures import run_figures
from edgellm.bench.serving.generator import LoadGenerator, OnTick, warm_up
from edgellm.bench.serving.options import CLOSED_REQUESTS, ServingOptions
from edgellm.bench.serving.requests import RequestSource
from edgellm.bench.serving.target import LoadRequest, Target

WARM_UP_REQUESTS = 4
"""Requests before an open loop, which no figure counts. A closed loop has one for each client."""


class ServingBench:
    """Loads on one target. `runs` has the figures of each run, also of one that was interrupted.

    At most `at_once` requests of an open loop are sent at once.
    """

    def __init__(self, target: Target, name: str, source: RequestSource, options: ServingOptions, at_once: int) -> None:
        """`name` is what reports call the target."""
        self._target, self._name, self._source, self._at_once = target, name, source, at_once
        self.options = options
        self.runs: list[dict[str, Any]] = []

    def warm_up(self) -> None:
        """Send requests that are not measured. Raises the first error."""
        warm_up(self._target, self._source.take(self.options.clients or WARM_UP_REQUESTS), self._at_once)

    def closed_loop(self, clients: int, on_tick: OnTick) -> None:
        """Run a closed loop."""
        requests = self._source.take(self.options.requests or CLOSED_REQUESTS)
        self._run(clients, requests, {"clients": clients, "rate": None}, None, on_tick)

    def open_loop(self, rate: float, on_tick: OnTick) -> None:
        """Run an open loop with `rate` arrivals per second."""
        n, duration = self.options.requests, self.options.duration
        requests = self._source.poisson(rate, n, duration)
        window = (requests[-1].arrival_s if n and requests else duration) or None
        self._run(self._at_once, requests, {"clients": None, "rate": rate}, window, on_tick, None if n else duration)

    def _run(
        self,
        at_once: int,
        requests: list[LoadRequest],
        load: dict[str, Any],
        window_s: float | None,
        on_tick: OnTick,
        drain_s: float | None = None,
    ) -> None:
        generator, complete = LoadGenerator(self._target, at_once), False
        try:
            generator.run(requests, on_tick, drain_s)
            complete = True
        finally:
            if generator.outcomes:
                figures = run_figures(generator.outcomes, self.options.slo_ttft, self.options.slo_itl, window_s)
                self.runs.append({**load, "complete": complete, **figures})

    def report(self) -> dict[str, Any]:
        """The load and the figures of all runs: the object that `--json` prints."""
        options = asdict(self.options) | {
            name: str(getattr(self.options, name)) for name in ("prompt_tokens", "tokens")
        }
        return {"target": self._name, **options, "runs": self.runs}
