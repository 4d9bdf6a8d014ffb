"""vLLM in place of edgellm, on a machine with a GPU: all requests of a shard at once.

Only what vLLM has in common with edgellm is passed on. Its texts are its own: other bits, and another random generator.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from edgellm.batch.answers import BatchAnswer, make_answer, read_asked
from edgellm.batch.requests import BatchRequest
from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.generate.stats import Stats
from edgellm.server.events import Event, ReplyEnd, ReplyPart
from edgellm.server.failures import RequestError
from edgellm.server.thoughts import ThoughtSplitter
from edgellm.server.work import Prompt, Work

_SAME = ("max_tokens", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "seed", "stop", "logit_bias")
_RENAMED = {"temp": "temperature", "repeat_penalty": "repetition_penalty"}
_ABSENT = ("json_schema", "regex", "grammar", "tools", "logprobs")
"""Options that need an edgellm."""

Output = Any
"""A `vllm.RequestOutput`, or a ValueError in its place."""


def has_vllm() -> bool:
    """Whether this machine has vLLM, and a GPU for it."""
    if find_spec("vllm") is None:
        return False
    import torch

    return bool(torch.cuda.is_available())


class VLLMModel:
    """A model that vLLM has opened."""

    def __init__(self, path: Path) -> None:
        import vllm

        self._vllm, self._model = vllm, vllm.LLM(model=str(path))

    def answers(self, shard: Sequence[tuple[int, str, BatchRequest]], name: str) -> list[BatchAnswer]:
        """The answers to requests with their indices and identifiers, in the name of a model."""
        works = [_work_of(request) for _, _, request in shard]
        asked = [(choice, work) for choice, work in enumerate(works) if work]
        outputs = dict[int, list[Output]]()
        for is_chat, generate in ((True, self._model.chat), (False, self._model.generate)):
            self._run(generate, [each for each in asked if each[1].chat is is_chat], outputs)
        return [
            make_answer(index, request, answer_id, name, _teller(outputs.get(number, [])))
            for number, (index, answer_id, request) in enumerate(shard)
        ]

    def _run(
        self, generate: Callable[..., list[Output]], asked: list[tuple[int, Work]], outputs: dict[int, list[Output]]
    ) -> None:
        """Generate the replies to works, which have their numbers, all together."""
        choices = [(number, prompt, options) for number, work in asked for _, prompt, options in work.choices()]
        if not choices:
            return
        found = self._outputs(generate, [(_prompt(prompt), _params(options)) for _, prompt, options in choices])
        for (number, _, _), output in zip(choices, found, strict=True):
            outputs.setdefault(number, []).append(output)

    def _outputs(self, generate: Callable[..., list[Output]], asked: list[tuple[Any, dict[str, Any]]]) -> list[Output]:
        """What vLLM generates, or its error: one with a single prompt, such as a long one, harms no other."""
        try:
            params = [self._vllm.SamplingParams(**given) for _, given in asked]
            return list(generate([prompt for prompt, _ in asked], params, use_tqdm=False))
        except ValueError as error:
            if len(asked) == 1:
                return [error]
            middle = len(asked) // 2
            return self._outputs(generate, asked[:middle]) + self._outputs(generate, asked[middle:])


def _work_of(request: BatchRequest) -> Work | None:
    """What a request asks for, None if it gets an error."""
    try:
        work = read_asked(request).work
    except (RequestError, EdgeLLMError):
        return None
    return None if _lacking(work) else work


def _lacking(work: Work) -> list[str]:
    return [name for name in _ABSENT if work.options.get(name)]


def _prompt(prompt: Prompt) -> Any:
    """A prompt as vLLM takes it: text, messages, or an object with token ids."""
    return {"prompt_token_ids": prompt} if isinstance(prompt, list) and isinstance(prompt[0], int) else prompt


def _params(options: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments of `vllm.SamplingParams`; those that are not given are vLLM's, but for the length."""
    names = {**{name: name for name in _SAME}, **_RENAMED}
    found = {theirs: options[own] for own, theirs in names.items() if options.get(own) is not None}
    return {"max_tokens": None, **found}


def _teller(outputs: Sequence[Output]) -> Callable[[Work, Callable[[Event], None]], None]:
    """A `Generate` that tells what vLLM has generated."""

    def generate(work: Work, emit: Callable[[Event], None]) -> None:
        if lacking := _lacking(work):
            raise RequestError(400, f"not supported by vLLM here: {', '.join(lacking)}", code="unsupported_parameter")
        for error in outputs:
            if isinstance(error, ValueError):
                raise RequestError(400, f"vLLM: {printable(str(error), 400)}")
        for choice, output in enumerate(outputs):
            reply = output.outputs[0]
            splitter = ThoughtSplitter()
            parts = (splitter.push(reply.text), splitter.flush()) if work.chat else (("", reply.text),)
            for thought, answer in parts:
                emit(ReplyPart(choice, thought, answer))
            reason = "length" if reply.finish_reason == "length" else "stop"
            stats = Stats(len(output.prompt_token_ids), 0, len(reply.token_ids), None, None, None, None, None, [])
            emit(ReplyEnd(choice, reason, isinstance(reply.stop_reason, str), stats, 0))

    return generate
