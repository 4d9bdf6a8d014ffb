"""/api/chat and /api/generate."""

from typing import Any

from edgellm.server.answering import answer
from edgellm.server.exchange import LINES, Exchange
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
from edgellm.server.work import Prompt, Work


async def chat(exchange: Exchange, body: Fields) -> None:
    """Answer a request to /api/chat. One without messages only loads the model, or unloads it."""
    media_type, name, messages = _stream_type(body), body.required("model"), messages_of(body)
    options = options_of(body) | tools_of_body(body)
    work = _work(body, name, messages, options)
    if not messages:
        return await _load(exchange, work, LineMaker(name, chat_shape))
    return await answer(exchange, work, lambda model: LineMaker(name, chat_shape), media_type)


async def generate(exchange: Exchange, body: Fields) -> None:
    """Answer a request to /api/generate. One without a prompt only loads the model, or unloads it."""
    media_type, name, text = _stream_type(body), body.required("model"), body.text("prompt")
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
    return await answer(exchange, work, lambda model: LineMaker(name, generate_shape), media_type)


def _stream_type(body: Fields) -> str | None:
    return LINES if body.get("stream") is None or body.flag("stream") else None


def _work(body: Fields, name: str, prompt: Prompt, options: dict[str, Any]) -> Work:
    think, keep_alive = thinking_of(body), keep_alive_of(body)
    body.finish()
    return Work(name, [prompt], options, think=think, keep_alive=keep_alive)


async def _load(exchange: Exchange, work: Work, lines: LineMaker) -> None:
    service = exchange.service
    async with service.models.use(await service.find(work.model), work.keep_alive):
        pass
    await exchange.reply(lines.without_reply("unload" if work.keep_alive == 0 else "load"))
