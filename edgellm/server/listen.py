"""The socket of a server: bound before a model is opened, so that a wrong address is an error at once."""

import errno
import os
import socket
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.fmt import printable, shown_path
from edgellm.server.settings import ServeSettings
from edgellm.system.http import is_loopback

_BACKLOG = 128


def check_settings(settings: ServeSettings) -> None:
    """Raises OptionError for a host that others reach, without a key."""
    if settings.unix is None and settings.api_key is None and not is_loopback(settings.host):
        host = printable(settings.host)
        raise OptionError(f"--host {host} lets other machines in: give --api-key, or set EDGELLM_API_KEY")


@contextmanager
def listening(settings: ServeSettings) -> Iterator[tuple[socket.socket, str]]:
    """The bound socket, and its address to show. Raises EdgeLLMError if it cannot be bound."""
    if settings.unix is not None:
        with _unix(Path(settings.unix)) as bound:
            yield bound, f"unix:{Path(settings.unix).absolute()}"
        return
    with _tcp(settings.host, settings.port) as bound:
        port = bound.getsockname()[1]
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        yield bound, f"http://{host}:{port}"


def _tcp(host: str, port: int) -> socket.socket:
    name = printable(host)
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        return socket.create_server(found[0][4][:2], family=found[0][0], backlog=_BACKLOG)
    except socket.gaierror as error:
        raise EdgeLLMError(f"--host {name}: {error.strerror}; give the address of this machine") from None
    except (OSError, UnicodeError) as error:
        number = getattr(error, "errno", None)
        if number == errno.EADDRINUSE:
            raise EdgeLLMError(f"port {port} is in use; choose another --port") from None
        problem = os.strerror(number) if number else str(error)  # strerror of `error` has the address as well
        advice = "give the address of this machine" if number == errno.EADDRNOTAVAIL else "choose another --port"
        raise EdgeLLMError(f"--host {name}, --port {port}: {problem}; {advice}") from None


@contextmanager
def _unix(path: Path) -> Iterator[socket.socket]:
    """A socket that only its user may use; it is removed at the end. A socket without a listener is replaced."""
    name, family = shown_path(path), getattr(socket, "AF_UNIX", None)
    if family is None:
        raise EdgeLLMError("--unix: this system has no such sockets; use --port")
    bound = socket.socket(family, socket.SOCK_STREAM)
    before = os.umask(0o177)  # the socket is made with these permissions, never with others first
    try:
        _remove_stale(path, family)
        bound.bind(str(path))
        bound.listen(_BACKLOG)
    except EdgeLLMError:
        bound.close()
        raise
    except OSError as error:
        bound.close()
        problem = error.strerror or str(error)
        raise EdgeLLMError(f"--unix {name}: {problem}; choose a path where no file is, in a folder of yours") from None
    finally:
        os.umask(before)
    try:
        with bound:
            yield bound
    finally:
        with suppress(OSError):
            path.unlink()


def _remove_stale(path: Path, family: int) -> None:
    """Remove a socket that a server left when it was killed. Raises EdgeLLMError if one listens."""
    with suppress(FileNotFoundError):
        if stat.S_ISSOCK(path.lstat().st_mode):
            _remove_unless_used(path, family)


def _remove_unless_used(path: Path, family: int) -> None:
    with socket.socket(family, socket.SOCK_STREAM) as client:
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            path.unlink()
            return
    raise EdgeLLMError(f"--unix {shown_path(path)}: a server listens there; stop it, or choose another path")
