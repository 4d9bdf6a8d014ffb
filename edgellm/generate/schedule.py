"""Which tokens the next batch computes: a step of each reply that waits, then tokens of prompts.

While requests share the engine, a batch has only as many tokens of prompts as take about PROMPT_S, so that no reply
waits longer than that for its next token because of a long prompt.
"""

from collections.abc import Iterable, Sequence

from edgellm.generate.computation import Computation

PROMPT_S = 0.1
"""Seconds that a batch may take while requests share the engine."""

LEAST_ROWS = 8
"""Rows of prompts in a batch, however long they take: a prompt must come to its end."""

_FIRST_ROWS = 16
"""Rows that are expected to take PROMPT_S, until it is known."""

_SHARE = 4
"""Steps leave prompts at least 1 / _SHARE of the rows of a small batch."""

Chosen = list[tuple[Computation, int]]
"""Computations, and how many tokens of each the next batch computes."""


class Schedule:
    """Chooses the tokens of batches, and learns how many take PROMPT_S.

    `policy` is the order of prompts: "fcfs", first come, first served; or "srpt", the shortest remaining time first,
    less the time that a prompt has waited.
    """

    def __init__(self, policy: str = "srpt") -> None:
        self.policy = policy
        self._rows = _FIRST_ROWS
        self._row_s = PROMPT_S / _FIRST_ROWS

    def choose(self, waiting: Sequence[Computation], most_rows: int, shared: bool) -> Chosen:
        """The computations of the next batch of up to `most_rows` rows; `shared`: other requests wait or decode.

        There is at least one, unless none waits.
        """
        prompts = self._ordered(each for each in waiting if not each.is_step)
        kept = min(LEAST_ROWS, -(-most_rows // _SHARE)) if prompts else 0
        chosen, rows = Chosen(), 0
        for step in (each for each in waiting if each.is_step):
            if not chosen or rows + step.left <= most_rows - kept:
                chosen.append((step, step.left))
                rows += step.left
        room = min(most_rows, max(self._rows, rows + kept)) - rows if shared else most_rows - rows
        for prompt in prompts:
            if room > 0:
                chosen.append((prompt, min(room, prompt.ready)))
                room -= prompt.ready
        return chosen

    def _ordered(self, prompts: Iterable[Computation]) -> list[Computation]:
        if self.policy == "fcfs":
            return sorted(prompts, key=lambda each: each.since)
        # A second of waiting counts as much as a second less to compute: a long prompt does not wait for ever.
        return sorted(prompts, key=lambda each: each.left * self._row_s + each.since)

    def record(self, rows: int, seconds: float) -> None:
        """A batch of `rows` rows took `seconds`."""
        if rows < LEAST_ROWS or not seconds:
            return
        self._row_s += (seconds / rows - self._row_s) / 4
        if seconds > PROMPT_S or rows >= self._rows:
            self._rows = round(min(max(LEAST_ROWS, rows * PROMPT_S / seconds), 2 * self._rows))
