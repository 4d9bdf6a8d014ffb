"""A benchmark of serving: warms up what answers, and runs loads on it."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from edgellm.bench.serving.bend import ATTAINMENT, bend_of, search_bend
from edgellm.bench.serving.comparison import compare
from edgellm.bench.serving.cost import Prices, cost_figures
from edgellm.bench.serving.energy import Energy
from edgellm.bench.serving.figures import run_figures
from edgellm.bench.serving.generator import LoadGenerator, warm_up
from edgellm.bench.serving.options import CLOSED_REQUESTS, MOST_RATE, MOST_REQUESTS, ServingOptions
from edgellm.bench.serving.outcome import Outcome, Status
from edgellm.bench.serving.requests import RequestSource
from edgellm.bench.serving.target import LoadRequest, Target
from edgellm.bench.serving.traces import TraceRow
from edgellm.errors import EdgeLLMError
from edgellm.fmt import counted

WARM_UP_REQUESTS = 4
"""Requests before an open loop, which no figure counts. A closed loop has one for each client."""

LEAST_ARRIVALS = 5
"""Requests that a run of a search has at least, on average: fewer say nothing about a share of 90 %."""

OnStatus = Callable[[str], None]


@dataclass(frozen=True)
class Load:
    """A run to do: `at_once` requests at most are sent at once.

    `window_s` is the time in which they arrive (a number of requests with a rate: on average), None for a closed loop;
    those that still run `drain_s` after the last arrival are cancelled, if it is given.
    """

    name: str
    requests: Sequence[LoadRequest]
    at_once: int
    clients: int | None = None
    rate: float | None = None
    window_s: float | None = None
    drain_s: float | None = None


class ServingBench:
    """Loads of the model file `model` on one target, or on several in turn, by the names that reports call them.

    `runs` has the figures of each run, also of one that was interrupted. At most `at_once` requests of an open loop are
    sent at once. `trace` are the requests to replay; `left_out` are rows of the trace that no run has.
    """

    def __init__(
        self,
        model: str,
        targets: Mapping[str, Target],
        source: RequestSource,
        options: ServingOptions,
        energy: Energy,
        at_once: int,
        trace: Sequence[TraceRow] = (),
        left_out: int = 0,
    ) -> None:
        self.runs: list[dict[str, Any]] = []
        self._model, self._targets, self._source, self._options, self._energy = model, targets, source, options, energy
        self._at_once, self._trace, self._left_out = at_once, trace, left_out

    def run(self, on_status: OnStatus) -> None:
        """Warm up, then run everything that the options ask for. Raises EdgeLLMError if the warm-up fails."""
        options = self._options
        on_status("warming up")
        requests = self._source.take(options.clients or WARM_UP_REQUESTS)
        alone_s = [warm_up(target, requests, self._at_once) for target in self._targets.values()]
        for number in range(options.rounds):
            for load in self._loads():
                self._on_each_target(load, number, on_status)
        if options.search:
            self._search(len(requests) / 2 / alone_s[0], on_status)

    def report(self) -> dict[str, Any]:
        """The load and the figures of all runs: the object that `--json` prints."""
        lengths = {name: str(getattr(self._options, name)) for name in ("prompt_tokens", "tokens")}
        found: dict[str, Any] = {"model": self._model, "targets": list(self._targets)}
        found |= {**asdict(self._options), **lengths, "left_out": self._left_out}
        found |= {"energy": self._energy.source, "energy_note": self._energy.note or None, "runs": self.runs}
        if len({run["rate"] for run in self.runs if run["complete"]} - {None}) > 1:
            found |= {"attainment": ATTAINMENT, "bend": {name: self._bend(name) for name in self._targets}}
        if len(self._targets) > 1:
            found["ratio"] = compare(self.runs, *self._targets)
        return found

    def _loads(self) -> Iterator[Load]:
        options, source = self._options, self._source
        if options.clients:
            requests = source.take(options.requests or CLOSED_REQUESTS)
            yield Load(counted(options.clients, "client"), requests, options.clients, clients=options.clients)
        if options.replay:
            yield self._open_loop("trace", None, source.replay(self._trace))
        for rate in options.rates:
            yield self._poisson(rate)

    def _poisson(self, rate: float) -> Load:
        options = self._options
        requests = self._source.poisson(rate, options.requests, options.duration)
        if not requests:
            none = f"no request arrives in {options.duration:g} s at {rate:g} requests/s"
            raise EdgeLLMError(f"{none}: give --requests, or a longer --duration")
        return self._open_loop(f"{rate:g} requests/s", rate, requests)

    def _open_loop(self, name: str, rate: float | None, requests: Sequence[LoadRequest]) -> Load:
        if number := self._options.requests:
            window_s = number / rate if rate else requests[-1].arrival_s
            return Load(name, requests, self._at_once, rate=rate, window_s=window_s)
        duration = self._options.duration
        return Load(name, requests, self._at_once, rate=rate, window_s=duration, drain_s=duration)

    def _on_each_target(self, load: Load, number: int, on_status: OnStatus) -> None:
        """Run a load on all targets; in every second round the last one begins."""
        names = list(self._targets)
        for name in names if number % 2 == 0 else reversed(names):
            self._run(load, name, number, on_status)

    def _run(self, load: Load, name: str, number: int, on_status: OnStatus) -> dict[str, Any]:
        """Run a load on one target; returns its figures."""
        generator, energy = LoadGenerator(self._targets[name], load.at_once), self._energy
        figures: dict[str, Any] = {"target": name, "round": number, "clients": load.clients, "rate": load.rate}
        figures["complete"] = False
        shown = f"{name}, {load.name}" if len(self._targets) > 1 else load.name

        def tick(done: int, total: int) -> None:
            energy.poll()
            on_status(f"{shown}: {done:,} of {counted(total, 'request')}")

        energy.start()
        try:
            generator.run(load.requests, tick, load.drain_s)
            figures["complete"] = True
        finally:
            figures |= self._figures(generator.outcomes, load, figures["complete"])
            figures["stalled_s"] = generator.stalled_s
            if generator.outcomes:
                self.runs.append(figures)
        return figures

    def _figures(self, outcomes: Sequence[Outcome], load: Load, complete: bool) -> dict[str, Any]:
        """The figures of a run; of one that was interrupted, those of the requests that ended by themselves."""
        options = self._options
        ended = outcomes if complete else [each for each in outcomes if each.status is not Status.UNFINISHED]
        window_s = load.window_s if complete else None
        figures = run_figures(ended, options.slo_ttft, options.slo_itl, window_s)
        joules = self._energy.used(figures["seconds"])
        prices = Prices(options.price_hour, options.price_kwh)
        return figures | cost_figures(figures["seconds"], figures["generated_tokens"], joules, prices)

    def _search(self, first: float, on_status: OnStatus) -> None:
        """Find the rate at which goodput bends; there is one target."""
        (name,) = self._targets

        def holds(rate: float) -> bool:
            found = self._run(self._poisson(rate), name, 0, on_status)
            return bool(found["attainment"] >= ATTAINMENT)

        least = LEAST_ARRIVALS / self._options.duration if not self._options.requests else 0.0
        most = MOST_RATE if self._options.requests else min(MOST_RATE, MOST_REQUESTS / self._options.duration)
        search_bend(holds, first, least, most)

    def _bend(self, name: str) -> dict[str, float | None]:
        measured = [run for run in self.runs if run["target"] == name and run["complete"] and run["rate"]]
        return bend_of((run["rate"], run["attainment"]) for run in measured)._asdict()
