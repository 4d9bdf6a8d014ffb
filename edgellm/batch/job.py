"""What a batch is to do: its requests, the order in which they are computed, and the identifiers of their answers."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

from edgellm.batch.answers import failure_to, read_asked
from edgellm.batch.input_file import InputFile, InputLine
from edgellm.batch.requests import BatchRequest, read_request
from edgellm.errors import EdgeLLMError
from edgellm.fmt import counted, printable
from edgellm.server.failures import RequestError
from edgellm.server.work import Prompt

_BEGINNING = 256
"""Characters of a prompt by which requests are sorted."""


@dataclass(frozen=True, slots=True)
class Planned:
    """A request that is to be answered: its line, and where it belongs in the order of computing."""

    line: InputLine
    place: tuple[float, str]


@dataclass
class _Faults:
    """How many requests have a fault, and the first of them: an input may have millions."""

    count: int = 0
    first: str = ""

    def add(self, fault: str) -> None:
        self.count += 1
        self.first = self.first or fault

    def shown(self, requests: int) -> list[str]:
        """A line, if there are any."""
        asked = counted(requests, "request")
        return [f"{self.count:,} of {asked} will get an error; the first is {self.first}"] if self.count else []


@dataclass
class Job:
    """All requests of an input, and the name of the model. `facts` tell what the answers depend on."""

    source: InputFile
    model: str
    planned: list[Planned]
    facts: Mapping[str, str]
    notes: list[str] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.planned)

    def order(self, without: Mapping[int, Any]) -> list[int]:
        """The requests to compute, but those in `without`.

        Those that may have the longest replies come first, so that none of them runs alone at the end; of the others,
        those whose prompts begin alike are neighbours, so that what they share is still cached.
        """
        left = (index for index in range(len(self)) if index not in without)
        return sorted(left, key=lambda index: self.planned[index].place)

    def request(self, index: int) -> BatchRequest:
        """The request `index`. Raises EdgeLLMError if the input has changed."""
        line = self.planned[index].line
        return read_request(self.source.read(line), self.source.where(line), line.number)

    def answer_id(self, index: int) -> str:
        """The identifier of an answer: the same in each run of this job."""
        return sha256(f"{self.facts} {index}".encode()).hexdigest()[:32]


def read_job(source: InputFile, model: str, facts: Mapping[str, str]) -> Job:
    """Read all requests. `facts` are what the answers depend on, beside the requests.

    Raises EdgeLLMError for an input without requests, a line that is no request, and one that has the `custom_id` of
    another.
    """
    digest, planned, numbers = sha256(), list[Planned](), dict[str, int]()
    faults, others = _Faults(), _Faults()
    for line, content in source.lines():
        request = read_request(content, source.where(line), line.number)
        first = numbers.setdefault(request.custom_id, line.number)
        if first != line.number:
            name = printable(request.custom_id)
            raise EdgeLLMError(f"{source.where(line)}: has the custom_id {name!r} of line {first:,}; give it its own")
        digest.update(line.digest)
        planned.append(Planned(line, _place(request, source.where(line), faults)))
        asked = request.body.get("model")
        if isinstance(asked, str) and asked.casefold() != model.casefold():
            others.add(f"{source.where(line)} asks for the model {printable(asked)}; {model} answers all requests")
    if not planned:
        raise EdgeLLMError(f"{source.name}: is empty; give a request on each line, see edgellm batch --help")
    notes = [*([others.first] if others.count else []), *faults.shown(len(planned))]
    return Job(source, model, planned, {"input": digest.hexdigest(), **facts}, notes)


def _place(request: BatchRequest, where: str, faults: _Faults) -> tuple[float, str]:
    """Where a request belongs in the order; one that gets an error costs no time, and adds to `faults`."""
    try:
        work = read_asked(request).work
    except (RequestError, EdgeLLMError) as error:
        faults.add(f"{where}: {failure_to(request, error).message}")
        return math.inf, ""
    limit = work.options.get("max_tokens")
    replies = work.n * len(work.prompts)
    return -(math.inf if limit is None else limit * replies), _beginning(work.prompts[0])


def _beginning(prompt: Prompt) -> str:
    if isinstance(prompt, str):
        return prompt[:_BEGINNING]
    text = ""
    for part in prompt:
        text += f"{part['role']} {part['content']}\n" if isinstance(part, dict) else f"{part} "
        if len(text) >= _BEGINNING:
            break
    return text[:_BEGINNING]
