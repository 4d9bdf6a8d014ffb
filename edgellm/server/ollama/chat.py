"""/api/chat and /api/generate."""

from typing import Any

from edgellm.server.exchange import LINES, Exchange
from edgellm.server.failures import RequestError
from edgellm.server.fields import Fields
from edgellm.server.ollama.lines import LineMaker, chat_shape, generate_shape
from edgellm.server.ollama.reading import (
    check_no_images,
    keep_alive_of,
    messages_of,
    options_of,
    thinking_of,
    tools_of_body,
)
from edgellm.server.openai.replies import note_end
from edgellm.server.work import Prompt, Work


async def chat(exchange: Exchange, body: Fields) -> None:
    """Answer a request to /api/chat. One without messages only loads the model, or unloads it."""
    stream, name, messages = _streams(body), body.required("model"), messages_of(body)
    options = options_of(body) | tools_of_body(body)
    work = _work(body, name, messages, options)
    if not messages:
        return await _load(exchange, work, LineMaker(name, chat_shape))
    return await _answer(exchange, work, LineMaker(name, chat_shape), stream)


async def generate(exchange: Exchange, body: Fields) -> None:
    """Answer a request to /api/generate. One without a prompt only loads the model, or unloads it."""
    stream, name, text = _streams(body), body.required("model"), body.text("prompt")
    raw, system = body.flag("raw"), body.text("system")
    check_no_images(body)
    for field in ("suffix", "template"):
        body.only(field, "")
    body.ignore("context")
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text or ""})
    work = _work(body, name, (text or "") if raw else messages, options_of(body))
    if not text:
        return await _load(exchange, work, LineMaker(name, generate_shape))
    return await _answer(exchange, work, LineMaker(name, generate_shape), stream)


def _streams(body: Fields) -> bool:
    return body.get("stream") is None or body.flag("stream")


def _work(body: Fields, name: str, prompt: Prompt, options: dict[str, Any]) -> Work:
    think, keep_alive = thinking_of(body), keep_alive_of(body)
    body.finish()
    return Work(name, [prompt], options, think=think, keep_alive=keep_alive)


async def _load(exchange: Exchange, work: Work, lines: LineMaker) -> None:
    service = exchange.service
    async with service.models.use(await service.find(work.model), work.keep_alive):
        pass
    await exchange.reply(lines.without_reply("unload" if work.keep_alive == 0 else "load"))


async def _answer(exchange: Exchange, work: Work, lines: LineMaker, stream: bool) -> None:
    async with exchange.service.run(work) as running:
        async for event in running.events:
            line = lines.add(event)
            if stream and not exchange.begun:
                await exchange.begin(LINES)
            if stream and line is not None:
                await exchange.write(line)
        if lines.end is None:
            raise RequestError(503, "the server stops", code="stopping")
        note_end(exchange, running.name, [lines.end])
        await (exchange.end() if stream else exchange.reply(lines.whole()))
