"""Which tokens the next batch computes: a step of each reply that waits, then tokens of prompts.

While others decode, a batch has only as many tokens of prompts as fit the time `slo_itl`, so that no reply waits much
longer than that for its next token because of a long prompt. It is three times that while several prompts wait, as they
have their first tokens much sooner then.
"""

from collections.abc import Iterable, Sequence
from math import inf

from edgellm.engine.prompt_times import PromptTimes
from edgellm.engine.step_times import StepTimes
from edgellm.generate.batching.computation import Computation

SLO_ITL = 0.1
"""Seconds that a batch may take while others decode, by default."""

LEAST_ROWS = 4
"""Tokens of prompts in a batch at least, however long they take: a prompt must come to its end."""

_SEVERAL = 3
"""Where several prompts wait a batch may take this many times `slo_itl`. (Measured with AMX on Emerald Rapids, 1.2B, 8
clients, in turn: 29 tokens/s with twice, 41 with three times that.)"""

_SLOW_SHARE = 0.5
"""Where steps take most of the time or more, prompts get this many times the time of the steps."""

_GROUPS = 16, 8
"""Matmuls multiply rows in groups of these, and a part of a group takes as long as the whole. (Measured with AMX on
Emerald Rapids, 1.2B: 12 and 16 rows 87 ms, 20 rows 126, 32 rows 151.)"""

_SHARE = 4
"""Steps leave prompts at least 1 / _SHARE of the rows of a small batch."""

Chosen = list[tuple[Computation, int]]
"""Computations, and how many tokens of each the next batch computes."""


class Schedule:
    """Chooses the tokens of batches, and learns how long they take.

    `policy` is the order of prompts: "fcfs", first come, first served; or "srpt", the shortest remaining time first,
    less the time that a prompt has waited. `slo_itl` are the seconds that a batch may take while others decode
    and one prompt waits.
    """

    def __init__(self, policy: str = "srpt", slo_itl: float = SLO_ITL) -> None:
        self.policy, self._slo_itl = policy, slo_itl
        self.step_times, self._prompt_times = StepTimes(), PromptTimes()
        self._most_rows = 2 * LEAST_ROWS  # of a batch with steps: twice as many as one had before

    def choose(self, waiting: Sequence[Computation], most_rows: int, shared: bool) -> Chosen:
        """The computations of the next batch of up to `most_rows` rows; `shared`: other requests decode.

        There is at least one, unless none waits.
        """
        prompts = self._ordered(each for each in waiting if not each.is_step)
        least = min(LEAST_ROWS, -(-most_rows // _SHARE)) if prompts else 0
        chosen, steps = Chosen(), 0
        for step in (each for each in waiting if each.is_step):
            if not chosen or steps + step.left <= most_rows - least:
                chosen.append((step, step.left))
                steps += step.left
        room = most_rows - steps
        if shared and prompts:
            filling = self._rows_to_fill(steps, least, len(prompts[0].sequence))
            room = min(room, max(filling, self._rows_in_time(prompts, steps)))
        for prompt in prompts:
            if room > 0:
                chosen.append((prompt, min(room, prompt.ready)))
                room -= prompt.ready
        return chosen

    def _rows_to_fill(self, steps: int, least: int, position: int) -> int:
        """How many tokens of a prompt, at least `least`, fill a group beside `steps` rows.

        It is the larger group if the tokens take no longer than `slo_itl`.
        """
        larger, smaller = (-(-(steps + least) // group) * group - steps for group in _GROUPS)
        return larger if self._prompt_times.seconds(larger, position) <= self._slo_itl else smaller

    def _rows_in_time(self, prompts: Sequence[Computation], steps: int) -> int:
        """How many tokens of prompts, in their order, fit the time beside `steps` rows of steps."""
        rows, seconds = steps, self._prompt_s(steps, len(prompts))
        most = self._most_rows if steps else inf
        for prompt in prompts:
            position = len(prompt.sequence)
            fit = int(self._prompt_times.rows_within(seconds, position))
            if fit < prompt.ready or rows + prompt.ready > most:
                return _whole_groups(int(min(rows + fit, most))) - steps
            rows, seconds = rows + prompt.ready, seconds - self._prompt_times.seconds(prompt.ready, position)
        return rows - steps

    def _prompt_s(self, steps: int, prompts: int) -> float:
        """Seconds of a batch for prompt tokens, beside `steps` decode rows, where `prompts` prompts wait."""
        step_s = self._step_s(steps)
        limit = self._slo_itl if prompts == 1 else _SEVERAL * self._slo_itl
        return max(limit - step_s, step_s * _SLOW_SHARE)

    def _step_s(self, steps: int) -> float:
        """Seconds of `steps` rows of steps; 0 until they are known."""
        return (self.step_times.seconds(steps) if steps else None) or 0.0

    def _ordered(self, prompts: Iterable[Computation]) -> list[Computation]:
        if self.policy == "fcfs":
            return sorted(prompts, key=lambda each: each.since)
        # A second of waiting counts as much as a second less to compute: a long prompt does not wait for ever.
        times = self._prompt_times
        return sorted(prompts, key=lambda each: times.seconds(each.left, len(each.sequence)) + each.since)

    def record(self, steps: int, prompts: Sequence[tuple[int, int]], seconds: float) -> None:
        """A batch took `seconds`, of `steps` rows of steps and of `prompts`: tokens of each, and tokens before them."""
        rows = sum(tokens for tokens, _ in prompts)
        if not rows:
            self.step_times.record(steps, seconds)
            return
        position = sum(tokens * before for tokens, before in prompts) / rows
        step_s = self._step_s(steps)
        if steps:
            self._most_rows = max(self._most_rows, 2 * (steps + rows))
            if step_s and self._prompt_times.known:
                step_s += self._error_of_steps(step_s, rows, position, seconds)
                self.step_times.record(steps, step_s)
        elif rows < _GROUPS[0]:  # most of that time is that of reading the weights
            return
        self._prompt_times.record(rows, position, seconds - step_s)

    def _error_of_steps(self, step_s: float, rows: int, position: float, seconds: float) -> float:
        """How much longer the steps of a batch took than `step_s`, and not its `rows` tokens of prompts.

        Only the time of the whole batch is known. With few tokens of prompts, the error is that of the steps, so that
        the prompts of a slower machine do not get few tokens for ever. Otherwise both became slower alike.
        """
        prompt_s = self._prompt_times.seconds(rows, int(position))
        error = seconds - step_s - prompt_s
        return error if rows < _GROUPS[0] else error * step_s / (step_s + prompt_s)

    def ttft_s(self, prompts: Sequence[int], steps: int) -> float:
        """Seconds to compute `prompts` (token counts), one after the other, beside `steps` decode rows.

        0.0 until the time of a token is known.
        """
        if not self._prompt_times.known:
            return 0.0
        step_s, prompt_s = self._step_s(steps), self._prompt_s(steps, len(prompts))
        share = prompt_s / (prompt_s + step_s)
        return sum(self._prompt_times.seconds(tokens, 0) for tokens in prompts) / share


def _whole_groups(rows: int) -> int:
    """The most rows up to `rows` that fill groups."""
    return next((rows // group * group for group in _GROUPS if rows >= group), rows)
