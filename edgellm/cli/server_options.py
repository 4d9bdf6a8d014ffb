"""The options for a model of a server, in place of one on this machine."""

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import click

from edgellm.cli.options import in_order, utf8

if TYPE_CHECKING:
    from edgellm.remote.address import ServerAddress

server_options = in_order(
    click.option(
        "--server",
        metavar="URL",
        callback=utf8,
        help="Use a model of the server at this address, with OpenAI's API; MODEL is its name there.",
    ),
    click.option(
        "--server-key",
        metavar="KEY",
        callback=utf8,
        help="Key of the server; also in EDGELLM_SERVER_KEY, which other users of this machine cannot see.",
    ),
)
"""Adds the options of a server."""


def given_server(
    address: str | None, key: str | None, local: Iterable[str], given: Mapping[str, Any]
) -> "tuple[ServerAddress, str | None] | None":
    """The server and its key; None without --server. `local` are options that need a model on this machine.

    Raises click.UsageError if one of those is given, and OptionError.
    """
    if address is None:
        if key is not None:
            raise click.UsageError("--server-key belongs to --server.")
        return None
    if named := next((name for name in local if given.get(name) not in (None, {}, False, ())), None):
        option = f"--{named.replace('_', '-')}"
        raise click.UsageError(f"{option} is for a model on this machine: with --server the server decides it.")
    from edgellm.remote.address import server_address  # on demand
    from edgellm.remote.key import server_key

    found = server_address(address)
    return found, server_key(found, key)
