"""The address of a server, as a user gives it: a URL, or the path of a Unix socket."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn
from urllib.parse import SplitResult, urlsplit

from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.system.http import is_loopback

_SOCKET = re.compile(r"(?:http\+)?unix:(?://)?(?P<path>.+)")
_VERSION = re.compile(r"v\d+\w*")
_EXAMPLE = "give one such as http://127.0.0.1:8080, https://HOST/v1, or unix:PATH"
_SPACE_OR_CONTROL = re.compile(r"[\s\x00-\x1f\x7f]")


@dataclass(frozen=True)
class ServerAddress:
    """`url` is the base of all routes, without a slash at its end; `socket` the path of a Unix socket, or None.

    `host` is what people call the server: host and port, or the path of the socket.
    """

    url: str
    host: str
    socket: str | None = None

    @property
    def reference(self) -> str:
        """What references to models of the server begin with: the name of the model follows."""
        return f"{self.url if self.socket is None else f'unix:{self.socket}'}#"

    @property
    def is_local(self) -> bool:
        """Whether the server runs on this machine."""
        return self.socket is not None or is_loopback(urlsplit(self.url).hostname or "")


def server_address(given: str) -> ServerAddress:
    """The address that a user gave, with or without `/v1`. Raises OptionError, in one line."""
    if (found := _SOCKET.fullmatch(given)) and found["path"].isprintable():
        path = str(Path(found["path"]).absolute())
        return ServerAddress("http://localhost/v1", path, path)
    url = _split(given)
    if url.scheme not in ("http", "https") or not url.hostname or url.query or url.fragment:
        _refuse(given)
    if "@" in url.netloc:
        raise OptionError("option server has a name or password in it; give the key in EDGELLM_SERVER_KEY")
    host = url.netloc.lower()  # the key of OpenAI depends on it
    return ServerAddress(f"{url.scheme}://{host}{_base_path(url.path)}", host)


def _split(given: str) -> SplitResult:
    """The parts of a URL; of a loopback address the scheme may be left out."""
    if _SPACE_OR_CONTROL.search(given) or not given.isascii():
        _refuse(given)
    try:
        url = urlsplit(given if "://" in given else f"http://{given}")
        port = url.port
        (url.hostname or "").encode("idna")  # as Python does when it looks for the host
    except ValueError:
        _refuse(given)
    if port == 0 or ("://" not in given and not is_loopback(url.hostname or "")):
        _refuse(given)
    return url


def _base_path(path: str) -> str:
    """The path of the routes: that of a version of the API, `/v1` if none is given."""
    path = path.rstrip("/")
    return path if any(map(_VERSION.fullmatch, path.split("/"))) else f"{path}/v1"


def _refuse(given: str) -> NoReturn:
    raise OptionError(f"option server is not the address of a server: {printable(given, 200)!r}; {_EXAMPLE}")
