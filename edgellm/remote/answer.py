"""The parts of an answer: a stream of server-sent events, or one JSON object of a server that does not stream."""

from collections.abc import Iterable, Iterator

from edgellm.remote.events import MAX_EVENT_BYTES, TooLongError, event_data
from edgellm.remote.failures import ServerError
from edgellm.remote.parts import AnswerPart, answer_part

DONE = "[DONE]"
_PAGES = ("text/html", "application/xhtml+xml")


def answer_parts(kind: str, chunks: Iterable[bytes], host: str) -> Iterator[AnswerPart]:
    """The parts of an answer of the media type `kind`, as they come. Raises ServerError.

    A stream ends with `[DONE]`, or behind a part with a finish reason; one that ends before is broken.
    """
    if kind in _PAGES:
        raise ServerError(f"{host} answers with a web page: check the address")
    ended = False
    for data in _data(kind, chunks, host):
        if data.strip() == DONE:
            ended = True
            break
        if data.strip():
            part = answer_part(data, host)
            ended = ended or part.reason is not None
            yield part
    if not ended:
        raise ServerError(f"{host} ended the connection in the middle of the reply; try again")


def _data(kind: str, chunks: Iterable[bytes], host: str) -> Iterator[str]:
    try:
        if kind == "application/json":
            yield _whole(chunks)
        else:
            yield from event_data(chunks)
    except TooLongError:
        raise ServerError(f"{host} sends a longer line than any part of a reply; the reply ends here") from None


def _whole(chunks: Iterable[bytes]) -> str:
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > MAX_EVENT_BYTES:
            raise TooLongError
    return body.decode(errors="replace")
