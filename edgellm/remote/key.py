"""The key of a server: where it comes from, and to whom it is sent."""

import os

from edgellm.errors import OptionError
from edgellm.remote.address import ServerAddress

KEY_VARIABLE = "EDGELLM_SERVER_KEY"
_OPENAI = "https://api.openai.com/"


def server_key(address: ServerAddress, given: str | None) -> str | None:
    """The key that is given, else that in EDGELLM_SERVER_KEY; OPENAI_API_KEY is for api.openai.com alone.

    Raises OptionError for a key that no header can have; the message does not show it.
    """
    own = os.environ.get("OPENAI_API_KEY") if address.url.startswith(_OPENAI) else None
    key = given or os.environ.get(KEY_VARIABLE) or own or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise OptionError(f"option server_key (or {KEY_VARIABLE}) has characters that no key has; check it")
    return key
