"""Replies of a fake server to one question."""

from typing import Any

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.remote.reply import RemoteReply
from support.fake_api import Answer, FakeAPI

ASKED = [{"role": "user", "content": "Hi"}]
KEY = "sk-very-secret"


def reply(api: FakeAPI, *answers: Answer, key: str | None = None, **options: Any) -> RemoteReply:
    """The reply to `ASKED`, which the server answers with these, one for each request."""
    api.say(*answers)
    return api.model(key=key).reply(ASKED, options)


def error_line(found: RemoteReply) -> str:
    """The error of a reply, on one line."""
    with pytest.raises(EdgeLLMError) as error:
        list(found)
    line = str(error.value)
    assert "\n" not in line and "\x1b" not in line and KEY not in line
    return line
