"""A worker of a cluster: it answers shards of requests with a model of its own, edgellm's or vLLM's."""

import json
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from edgellm.batch.answers import BatchAnswer, Generate, make_answer
from edgellm.batch.at_once import RequestRunner, answer_all, at_once_of, open_model
from edgellm.batch.fingerprint import fingerprint_of
from edgellm.batch.requests import BatchRequest
from edgellm.batch.vllm_model import VLLMModel, has_vllm
from edgellm.errors import EdgeLLMError
from edgellm.fmt import shown_path
from edgellm.server.json_text import encoded


@dataclass(frozen=True)
class WorkerSettings:
    """What a worker opens: the file at `path`, which must have that fingerprint, with `load`; `name` is in answers.

    `parallel` is the number of requests at once, None for the one that pays.
    """

    path: str
    fingerprint: str
    name: str
    load: Mapping[str, Any]
    parallel: int | None


def packed(shard: Sequence[tuple[int, str, BatchRequest]]) -> bytes:
    """Requests, with their indices and the identifiers of their answers, as bytes."""
    return encoded([[index, answer_id, asdict(request)] for index, answer_id, request in shard])


class BatchWorker:
    """Called by Ray Data with a shard of requests; the model is opened once."""

    def __init__(self, settings: Mapping[str, Any]) -> None:
        """Raises EdgeLLMError if the file is another one than that of the caller."""
        self._settings = WorkerSettings(**settings)
        path = Path(self._settings.path)
        if fingerprint_of(path) != self._settings.fingerprint:
            name = shown_path(self._settings.path)
            raise EdgeLLMError(f"{name}: is another file on a machine of the cluster; copy the same one to all")
        self._vllm = VLLMModel(path) if has_vllm() else None
        self._model = None if self._vllm else open_model(path, self._settings.load)

    def __call__(self, rows: Mapping[str, Any]) -> dict[str, list[Any]]:
        """The answers to a shard, as columns."""
        shard = [(index, name, BatchRequest(**given)) for index, name, given in json.loads(rows["shard"][0])]
        answers = list(map(asdict, self._answers(shard)))
        return {column: [answer[column] for answer in answers] for column in answers[0]}

    def _answers(self, shard: Sequence[tuple[int, str, BatchRequest]]) -> list[BatchAnswer]:
        name = self._settings.name
        if self._vllm:
            return self._vllm.answers(shard, name)

        def answering(place: int, generate: Generate) -> BatchAnswer:
            index, answer_id, request = shard[place]
            return make_answer(index, request, answer_id, name, generate)

        assert self._model
        at_once = self._settings.parallel or at_once_of(self._model)
        runner = RequestRunner(self._model)
        with closing(answer_all(range(len(shard)), answering, runner, at_once)) as answers:
            return [answer for answer in answers if answer]
