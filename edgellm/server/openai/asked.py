"""A request to one of OpenAI's routes, read: what it asks for, and what makes its answer."""

from collections.abc import Callable
from dataclasses import dataclass

from edgellm.server.answering import AnswerMaker, answer
from edgellm.server.exchange import EVENTS, Exchange
from edgellm.server.openai.replies import Stamp
from edgellm.server.work import Work

DONE = b"data: [DONE]\n\n"


@dataclass(frozen=True)
class Asked:
    """What a body asks for. `make` makes the answer for the name of a model; `streams`: as a stream."""

    work: Work
    make: Callable[[str, Stamp], AnswerMaker]
    streams: bool


async def answer_asked(exchange: Exchange, asked: Asked, last: bytes = b"") -> None:
    """Do the work, and answer. `last` ends a stream."""
    stamp = Stamp()
    media_type = EVENTS if asked.streams else None
    await answer(exchange, asked.work, lambda model: asked.make(model, stamp), media_type, last)
