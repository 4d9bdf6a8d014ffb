"""What a benchmark of serving sends. The command line reads its defaults here, so imports are few."""

from collections.abc import Set
from dataclasses import dataclass, replace

from edgellm.bench.options import BenchOptions
from edgellm.bench.serving.lengths import Lengths
from edgellm.errors import OptionError

MOST_RATE = 1000.0
"""The highest rate of arrivals, in requests per second."""

MOST_REQUESTS = 1_000_000
"""The most requests of a run."""

COMPARED_ROUNDS = 3
"""Rounds, if two targets are compared."""

CLOSED_REQUESTS = 64
"""Requests of a closed loop, unless their number is given."""

_PROMPT, _REPLY = Lengths.of(BenchOptions.prompt_tokens), Lengths.of(BenchOptions.tokens)


@dataclass(frozen=True)
class ServingOptions:
    """A load.

    `clients` send their next request when the last has its reply (a closed loop). Without them requests arrive with
    each of `rates` in turn, per second (an open loop); `search` finds the rate at which goodput bends, and `replay`
    takes the times of the file `trace`, which also has lengths. A run has `requests`, or as many as arrive in
    `duration` seconds. The lengths of prompts and replies are in tokens; all prompts begin with the same
    `shared_prefix` tokens.

    A reply is good if its TTFT is at most `slo_ttft` seconds and its mean time per later token at most `slo_itl`: the
    default limits are those of MLPerf Inference for Llama 2 70B.

    `watts` is the power of the machine, if it cannot be measured; prices are in any currency.

    `server` is the URL of an OpenAI-compatible server to measure in place of a model in this process, where at most
    `parallel` requests run at once. `server_model` is the name of the model there. `against_server` is measured as
    well, by the same requests in each of `rounds`.
    """

    prompt_tokens: Lengths = _PROMPT
    tokens: Lengths = _REPLY
    shared_prefix: int = 0
    clients: int | None = None
    rates: tuple[float, ...] = ()
    search: bool = False
    replay: bool = False
    trace: str | None = None
    requests: int | None = None
    duration: float = 30.0
    parallel: int = 16
    slo_ttft: float = 2.0
    slo_itl: float = 0.2
    seed: int | None = None
    temp: float = 0.0
    watts: float | None = None
    price_hour: float | None = None
    price_kwh: float | None = None
    server: str | None = None
    server_model: str | None = None
    against_server: str | None = None
    rounds: int = 1

    def fit_to_context(self, context: int, chosen: Set[str]) -> "ServingOptions":
        """These options for a model with this context length: defaults are reduced if need be, `chosen` values not.

        Raises OptionError for lengths of 0, if a prompt and its reply do not fit the context, or if a prompt is no
        longer than the prefix.
        """
        if self.trace:
            return self
        if not (self.prompt_tokens.least and self.tokens.least):
            raise OptionError("-p and -n cannot be 0 with --serve and --clients: give at least 1")
        fits = self
        if "prompt_tokens" not in chosen:
            fits = replace(fits, prompt_tokens=_at_most(fits.prompt_tokens, max(1, context - fits.tokens.most)))
        if "tokens" not in chosen:
            fits = replace(fits, tokens=_at_most(fits.tokens, max(1, context - fits.prompt_tokens.most)))
        if (longest := fits.prompt_tokens.most + fits.tokens.most) > context:
            raise OptionError(
                f"-p and -n cannot be {longest:,} tokens together: "
                f"give at most {context:,}, as the model's context has no more"
            )
        if fits.shared_prefix and fits.shared_prefix >= fits.prompt_tokens.least:
            raise OptionError(
                f"option shared_prefix cannot be {self.shared_prefix}: "
                f"give less than the {fits.prompt_tokens.least:,} tokens of the shortest prompt"
            )
        return fits


def _at_most(lengths: Lengths, most: int) -> Lengths:
    return Lengths(min(lengths.least, most), min(lengths.most, most))
