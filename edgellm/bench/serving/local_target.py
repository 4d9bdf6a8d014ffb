"""A model in this process, which threads ask as those of the server do."""

import math
from collections.abc import Callable

from edgellm.bench.serving.outcome import ReplyCounts
from edgellm.bench.serving.target import Cancellation, LoadRequest, RequestCancelledError
from edgellm.model import Model


class LocalTarget:
    """An open model, whose replies are sampled with the temperature `temp`."""

    is_local = True

    def __init__(self, model: Model, temp: float) -> None:
        self._model, self._temp = model, temp
        self._bias = dict.fromkeys(model.tokenizer.eog_ids, -math.inf)

    def complete(self, request: LoadRequest, on_piece: Callable[[], None], cancellation: Cancellation) -> ReplyCounts:
        """As `Target.complete`."""
        generation = self._model.stream(
            request.prompt, max_tokens=request.tokens, temp=self._temp, logit_bias=self._bias, logprobs=False
        )
        try:
            with cancellation.calls(generation.cancel):
                for _ in generation:
                    on_piece()
        finally:
            generation.close()
        if generation.finish_reason == "cancelled":
            raise RequestCancelledError("the request was cancelled")
        stats = generation.stats
        return ReplyCounts(stats.prompt_tokens, stats.cached_tokens, stats.generated_tokens)
