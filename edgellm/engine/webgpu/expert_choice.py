"""Where `auto` puts the layers and the experts of a model that does not fit on the GPU.

Experts take most of a model's memory, and a token reads few of them. So the CPU slows them least, but the hidden state
goes there and back for each such layer. The placement with the least reckoned time of a token is chosen.
"""

from collections.abc import Callable, Mapping, Sequence

from edgellm.arch.description import Description
from edgellm.engine.limits import BatchLimits
from edgellm.engine.offload_cost import decode_seconds
from edgellm.engine.placement import Placement
from edgellm.engine.webgpu.fit import gpu_memory
from edgellm.fmt import counted

Candidate = tuple[int, int]
"""Layers on the GPU, the output head counted as one more, and the first layers of the model whose experts are not."""

ON_CPU: Candidate = (0, 0)
"""Nothing on the GPU."""


class ExpertChoice:
    """Chooses among the placements that `place` makes of candidates, with up to `asked` layers on the GPU."""

    def __init__(
        self, model: Description, limits: BatchLimits, asked: int, place: Callable[[int, int], Placement]
    ) -> None:
        self._model, self._limits, self._asked, self._place = model, limits, asked, place
        self._layers = len(model.layers)

    def within(self, room: int) -> tuple[Candidate, str]:
        """The candidate that fits into `room` bytes with the least reckoned time of a token, and a line that says why.

        Candidates are as many whole layers as fit, all layers with as many experts as fit, and as many layers as fit
        without experts. If everything fits, it is chosen.
        """
        if self._first_fitting([(self._asked, 0)], room):
            return (self._asked, 0), ""
        whole = [(n, 0) for n in range(self._asked - 1, 0, -1)]
        split = [(self._asked, first) for first in range(1, self._layers + 1)]
        without = [(n, self._layers) for n in range(self._asked - 1, 0, -1)]
        fitting = (self._first_fitting(each, room) for each in (whole, split, without))
        times = {each: decode_seconds(self._model, self._place(*each)) for each in (*filter(None, fitting), ON_CPU)}
        chosen = min(times, key=lambda each: times[each])
        return chosen, self._why(chosen, times)

    def _first_fitting(self, candidates: Sequence[Candidate], room: int) -> Candidate | None:
        for each in candidates:
            if sum(gpu_memory(self._model, self._place(*each), self._limits).values()) <= room:
                return each
        return None

    def _why(self, chosen: Candidate, times: Mapping[Candidate, float]) -> str:
        """The reckoned time of what was chosen, and of what was not."""
        others = [each for each in times if each not in (chosen, ON_CPU)] or [ON_CPU]
        shown = [f"{times[each] * 1000:.1f} ms with {self._words(each)}" for each in dict.fromkeys((chosen, *others))]
        return f"a token takes, by reckoning, {', '.join(shown)}"

    def _words(self, candidate: Candidate) -> str:
        n, first = candidate
        if not n:
            return "everything on the CPU"
        head = " and the output head" if n > self._layers else ""
        if not first:
            return f"{counted(min(n, self._layers), 'whole layer')}{head} on the GPU"
        return f"{counted(min(n, self._layers), 'layer')}{head} on the GPU but for the experts of the first {first}"
