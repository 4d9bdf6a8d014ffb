"""/api/tags, /api/show, /api/ps, /api/version; /api/embed and /api/pull are refused."""

import asyncio
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from math import isfinite
from time import monotonic
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import count
from edgellm.gguf import GGUFFile
from edgellm.models.local_models import read_header
from edgellm.models.stores import StoredModel
from edgellm.server.catalog import ServedModel
from edgellm.server.exchange import Exchange
from edgellm.server.failures import RequestError
from edgellm.server.fields import Fields
from edgellm.server.loaded_models import LoadedModel
from edgellm.text.reply_format import reply_format
from edgellm.text.thinking_tags import thinking_tags
from edgellm.tools.formats import call_format

_TEMPLATE = "tokenizer.chat_template"
_FAR_DAYS = 36500


async def tags(exchange: Exchange, body: Fields) -> None:
    """Answer with all models."""
    models = await asyncio.to_thread(exchange.service.catalog.models)
    await exchange.reply({"models": await asyncio.to_thread(lambda: [_entry(each) for each in models])})


async def show(exchange: Exchange, body: Fields) -> None:
    """Answer with what the header of a model's file says."""
    await exchange.reply(await asyncio.to_thread(_shown, await exchange.service.find(read_show(body))))


def read_show(body: Fields) -> str:
    """The name of a model in a body of /api/show. Raises RequestError."""
    name = body.text("model") or body.required("name")
    body.ignore("verbose", "system", "template", "options")
    body.finish()
    return name


async def ps(exchange: Exchange, body: Fields) -> None:
    """Answer with the models that are open."""
    loaded = exchange.service.models.running()
    await exchange.reply({"models": await asyncio.to_thread(lambda: [_running(each) for each in loaded])})


async def version(exchange: Exchange, body: Fields) -> None:
    """Answer with the version of edgellm."""
    await exchange.reply({"version": exchange.service.settings.version})


async def embed(exchange: Exchange, body: Fields) -> None:
    """Refuse."""
    raise RequestError(400, "embeddings are not supported: edgellm serves models that write text")


async def pull(exchange: Exchange, body: Fields) -> None:
    """Refuse."""
    raise RequestError(400, "models cannot be pulled over HTTP; use `edgellm pull`")


def _entry(served: ServedModel) -> dict[str, Any]:
    found = read_header(served.name, StoredModel([served.name], "", served.path))
    return {
        "name": served.name,
        "model": served.name,
        "modified_at": _modified(served),
        "size": found.bytes or 0,
        # Clients want a digest; reading gigabytes to have one of the weights would take minutes.
        "digest": sha256(f"{served.path}\0{_modified(served)}\0{found.bytes}".encode()).hexdigest(),
        "details": _details(found.architecture, found.quantization, _parameter_size(served)),
    }


def _parameter_size(served: ServedModel) -> str:
    """The number of parameters, such as 1.2B; empty for a file that cannot be read."""
    try:
        with GGUFFile.open(served.path) as file:
            return _shown_count(_parameters(file))
    except EdgeLLMError:
        return ""


def _parameters(file: GGUFFile) -> int:
    return sum(tensor.size for tensor in file.tensors.values())


def _shown_count(parameters: int) -> str:
    return count(parameters).replace(" ", "")


def _details(architecture: str | None, quantization: str | None, parameters: str) -> dict[str, Any]:
    return {
        "parent_model": "",
        "format": "gguf",
        "family": architecture or "",
        "families": [architecture] if architecture else [],
        "parameter_size": parameters,
        "quantization_level": quantization or "",
    }


def _running(loaded: LoadedModel) -> dict[str, Any]:
    left = loaded.keep_alive if loaded.users else loaded.used + loaded.keep_alive - monotonic()
    ends = datetime.now(UTC) + (timedelta(days=_FAR_DAYS) if loaded.keep_alive < 0 else timedelta(seconds=left))
    context = {"context_length": loaded.model.ctx}
    return _entry(loaded.served) | {"size": loaded.needed, "expires_at": _time(ends), "size_vram": 0, **context}


def _shown(served: ServedModel) -> dict[str, Any]:
    found = read_header(served.name, StoredModel([served.name], "", served.path))
    with GGUFFile.open(served.path) as file:
        info = {key: value for key, value in file.metadata.items() if _is_plain(value)}
        parameters = _parameters(file)
    template = str(info.pop(_TEMPLATE, ""))
    return {
        "modelfile": f"FROM {served.name}",
        "parameters": "",
        "template": template,
        "modified_at": _modified(served),
        "details": _details(found.architecture, found.quantization, _shown_count(parameters)),
        "model_info": {**info, "general.parameter_count": parameters},
        "capabilities": _capabilities(template),
    }


def _is_plain(value: object) -> bool:
    return isinstance(value, int | str) or (isinstance(value, float) and isfinite(value))


def _capabilities(template: str) -> list[str]:
    thinks = bool(thinking_tags(template) or reply_format(template))
    found = {"completion": True, "tools": call_format(template) is not None, "thinking": thinks}
    return [name for name, has in found.items() if has]


def _modified(served: ServedModel) -> str:
    try:
        return _time(datetime.fromtimestamp(served.path.stat().st_mtime, UTC))
    except OSError:
        return _time(datetime.fromtimestamp(0, UTC))


def _time(moment: datetime) -> str:
    return moment.isoformat().replace("+00:00", "Z")
