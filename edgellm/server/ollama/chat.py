"""/api/chat and /api/generate. Without messages, or a prompt, they only load the model, or unload it."""

from typing import Any

from edgellm.server.asked import LINES, Asked
from edgellm.server.fields import Fields
from edgellm.server.ollama.lines import LineMaker, Shape, chat_shape, generate_shape
from edgellm.server.ollama.reading import (
    check_no_images,
    keep_alive_of,
    messages_of,
    options_of,
    thinking_of,
    tools_of_body,
)
from edgellm.server.work import Prompt, Work


def read_chat(body: Fields) -> Asked:
    """What a body of /api/chat asks for. Raises RequestError and OptionError."""
    messages = messages_of(body)
    return _asked(body, messages or None, options_of(body) | tools_of_body(body), chat_shape)


def read_generate(body: Fields) -> Asked:
    """What a body of /api/generate asks for. Raises RequestError and OptionError."""
    text, raw, system = body.text("prompt"), body.flag("raw"), body.text("system")
    check_no_images(body)
    for field in ("suffix", "template"):
        body.only(field, "")
    body.ignore("context")
    messages = [{"role": "system", "content": system}] if system else []
    messages.append({"role": "user", "content": text or ""})
    return _asked(body, (text if raw else messages) if text else None, options_of(body), generate_shape)


def _asked(body: Fields, prompt: Prompt | None, options: dict[str, Any], shape: Shape) -> Asked:
    name, streams = body.required("model"), body.flag("stream", default=True)
    think, keep_alive = thinking_of(body), keep_alive_of(body)
    body.finish()
    work = Work(name, [] if prompt is None else [prompt], options, think=think, keep_alive=keep_alive)
    return Asked(work, lambda model, stamp: LineMaker(name, shape, keep_alive), streams and bool(work.prompts), LINES)
