"""The address of the hub, from the environment."""

import os
from dataclasses import dataclass
from typing import NoReturn

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable

_DEFAULT = "https://huggingface.co"
_LAST_PORT = 65535


@dataclass(frozen=True)
class Endpoint:
    """The base URL of requests, without a slash at its end. As text it is safe for a terminal and has no password."""

    url: str
    shown: str

    def __str__(self) -> str:
        return self.shown


def hub_endpoint() -> Endpoint:
    """HF_ENDPOINT, by default huggingface.co. Raises EdgeLLMError for an invalid URL."""
    from httpx2 import URL, InvalidURL

    given = os.environ.get("HF_ENDPOINT", "").strip() or _DEFAULT
    try:
        url = URL(given)
    except (InvalidURL, ValueError):
        _refuse(given)
    if url.scheme not in ("http", "https") or not url.host or (url.port or 0) > _LAST_PORT or {"?", "#"} & {*str(url)}:
        _refuse(given)
    return Endpoint(str(url).rstrip("/"), str(url.copy_with(userinfo=b"")).rstrip("/"))


def _refuse(given: str) -> NoReturn:
    advice = "give one such as https://huggingface.co, or unset it"
    raise EdgeLLMError(f"HF_ENDPOINT is not the address of a hub: {printable(given)}; {advice}")
