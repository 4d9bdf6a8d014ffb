"""`edgellm bench --draft`: how fast replies are with drafts and without, and how fast they should be."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from itertools import product
from statistics import median
from typing import Any, NamedTuple

from edgellm.bench.draft_replies import REPLIES, DraftReply
from edgellm.engine.step_times import StepTimes
from edgellm.errors import ContextOverflowError, EdgeLLMError
from edgellm.fmt import shown_path
from edgellm.generate.results import Completion
from edgellm.generate.stats import Stats
from edgellm.model import Model
from edgellm.speculation.rules import DraftRule, Rejection, SameDraw
from kquants.jit import Progress

SAME, REJECTION = "same", "rejection"
RULES: dict[str, Callable[[], DraftRule]] = {SAME: SameDraw, REJECTION: Rejection}
TEMPS = 0.0, 0.8
_SEED = 7
_STEP_ROWS = 1, 2, 4, 8, 16
"""The rows of steps whose times are reported: each fills a batch of a class of `StepTimes`."""

OnStatus = Callable[[str], None]
"""Shows a line that says what is measured now."""


@dataclass(frozen=True)
class DraftCase:
    """A reply, at a temperature, whose drafts are accepted by a rule."""

    reply: str
    temp: float
    rule: str


class Pair(NamedTuple):
    """The figures of a reply without drafts, and with them; `steps` counts its steps with drafts by their rows."""

    plain: Stats
    drafted: Stats
    steps: dict[int, int]

    @property
    def ratio(self) -> float:
        """The speed with drafts relative to that without."""
        return (self.drafted.decode_tps or 0.0) / (self.plain.decode_tps or 1.0)


class DraftBench:
    """Replies of an open model, of `tokens` tokens each, with drafts and without. `round` measures all of them."""

    def __init__(self, model: Model, tokens: int, rules: tuple[str, ...] = (SAME,)) -> None:
        self._model, self._tokens, self._drafts = model, tokens, model.drafts()
        self._most, self._rule = self._drafts.most, self._drafts.rule
        self._ending = dict.fromkeys(model.tokenizer.eog_ids, -float("inf"))
        self._rules, self.pairs = rules, dict[DraftCase, list[Pair]]()

    def round(self, on_status: OnStatus) -> None:
        """Measure each reply; the side that was first in the last round is second now."""
        for reply, case in self._cases():
            done = len(self.pairs.get(case, ()))
            on_status(f"round {done + 1}: {case.reply} at temperature {case.temp:g}, rule {case.rule}")
            order = (True, False) if done % 2 else (False, True)
            found = {with_drafts: self._reply(reply, case, with_drafts) for with_drafts in order}
            (plain, _), (drafted, steps) = found[False], found[True]
            if case.rule == SAME and self._model.engine.batch_invariant and plain.tokens != drafted.tokens:
                raise EdgeLLMError(f"the {case.reply} reply has another text with drafts: please report this")
            self.pairs.setdefault(case, []).append(Pair(plain.stats, drafted.stats, steps))

    def _cases(self) -> Iterator[tuple[DraftReply, DraftCase]]:
        for reply, temp, rule in product(REPLIES, TEMPS, self._rules):
            if temp or rule == self._rules[0]:  # both rules take the most likely token
                yield reply, DraftCase(reply.name, temp, rule)

    def _reply(self, reply: DraftReply, case: DraftCase, with_drafts: bool) -> tuple[Completion, dict[int, int]]:
        """A reply, and its steps by their rows."""
        bias = {} if "json_schema" in reply.options else {"logit_bias": self._ending}
        options = {"max_tokens": self._tokens, "temp": case.temp, "seed": _SEED, **bias, **reply.options}
        drafts, before = self._drafts, self._steps()
        drafts.most, drafts.rule = self._most if with_drafts else 0, RULES[case.rule]()
        try:
            completion = self._model.generate(reply.prompt, **options)
        except ContextOverflowError:
            problem = f"the {case.reply} prompt of this benchmark is longer than the context of {self._model.ctx:,}"
            raise EdgeLLMError(f"{problem}; take a model with a longer one") from None
        finally:
            drafts.most, drafts.rule = self._most, self._rule
        return completion, {rows: count - before[rows] for rows, count in self._steps().items()}

    def _steps(self) -> dict[int, int]:
        return {rows: self._drafts.times.count(rows) for rows in _STEP_ROWS}

    def report(self) -> dict[str, Any]:
        """The figures, in the form of `--json`."""
        drafts, times = self._drafts, self._drafts.times
        one, source = times.seconds(1), drafts.source
        cost = source.pass_times.seconds(1) if source else None
        return {
            "model": str(self._model.file.path),
            "draft": source.name if source else None,
            "tokens": self._tokens,
            "draft_cost": cost / one if cost and one else None,
            "step_ms": {rows: 1000 * seconds for rows in _STEP_ROWS if (seconds := times.seconds(rows))},
            "replies": [{**asdict(case), **_figures(pairs, times)} for case, pairs in self.pairs.items()],
        }


@contextmanager
def open_drafting(
    name: str, tokens: int, rules: tuple[str, ...], compiling: Progress, load: dict[str, Any]
) -> Iterator[DraftBench]:
    """A benchmark of the model with this name, opened with the options `load`. Raises EdgeLLMError and its subclasses.

    It is an error if there are no drafts to measure.
    """
    with Model.open(name, progress=compiling, **load) as model:
        drafts = model.drafts()
        if not model.engine.batch_invariant and not drafts.are_asked_for:
            if load["draft"] not in (None, "auto"):  # a warning said why, and what to do: it is a head
                raise EdgeLLMError(f"{shown_path(load['draft'])} does not draft, so there is nothing to measure")
            raise EdgeLLMError("with layers on a GPU a draft model alone drafts: name one, or give --gpu-layers 0")
        if load["draft"] and not drafts.source:
            raise EdgeLLMError("there is no draft model to measure: name one, or give --draft lookup")
        yield DraftBench(model, tokens, rules)


def _figures(pairs: list[Pair], times: StepTimes) -> dict[str, Any]:
    last, ratio = pairs[-1].drafted, _spread([pair.ratio for pair in pairs])
    expected = expected_ratio(pairs[-1], times)
    return {
        "generated_tokens": last.generated_tokens,
        "plain_tps": _spread([pair.plain.decode_tps or 0.0 for pair in pairs]),
        "tps": _spread([pair.drafted.decode_tps or 0.0 for pair in pairs]),
        "ratio": ratio,
        "tokens_per_step": last.tokens_per_step,
        "drafts": {source: asdict(each) for source, each in last.drafts.items()},
        "expected": expected,
        "difference": ratio["median"] / expected - 1 if expected else None,
    }


def _spread(values: list[float]) -> dict[str, float]:
    return {"median": median(values), "min": min(values), "max": max(values)}


def expected_ratio(pair: Pair, times: StepTimes) -> float | None:
    """The speed with drafts relative to that without, by the tokens of steps and the times of steps and drafts alone.

    Where each of k drafts in a step is accepted with probability a, and a draft takes c of a step, that is
    (1 - a**(k + 1)) / ((1 - a) (k c + T(k + 1) / T(1))). None before a time is known.
    """
    stats, one = pair.drafted, times.seconds(1)
    seconds = sum(count * (times.seconds(rows) or 0.0) for rows, count in pair.steps.items())
    if not one or not seconds:
        return None
    return (stats.generated_tokens - 1) * one / (seconds + sum(each.seconds for each in stats.drafts.values()))
