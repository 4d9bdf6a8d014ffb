"""Replies that must have a form, of servers that hold them to it and of others."""

from typing import Any

import pytest

from edgellm.errors import IncompleteOutputError
from support.fake_api import Answer, FakeAPI, delta, saying
from support.remote_replies import error_line, reply

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}


@pytest.mark.parametrize("text", ['{"a": 1}', '{\n  "a" : 1\n}'])
def test_a_reply_in_its_form_is_parsed(api: FakeAPI, text: str) -> None:
    assert reply(api, saying(text), json_schema=SCHEMA).completion().parsed == {"a": 1}


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"json_schema": SCHEMA}, '{"a": "x"}'),
        ({"json_schema": SCHEMA}, "Sure! Here is your JSON"),
        ({"json_schema": SCHEMA}, '{"a": NaN}'),
        ({"choices": ("red", "blue")}, "green"),
        ({"regex": "[0-9]+"}, "12a"),
    ],
)
def test_a_server_that_ignores_the_form_is_an_error(api: FakeAPI, options: dict[str, Any], text: str) -> None:
    assert "did not hold the reply to" in error_line(reply(api, saying(text), **options))


def test_a_reply_that_is_cut_off_before_it_conforms(api: FakeAPI) -> None:
    cut = Answer([delta(content='{"a"'), delta("length")])
    with pytest.raises(IncompleteOutputError) as error:
        list(reply(api, cut, json_schema=SCHEMA))
    assert error.value.completion.text == '{"a"'
    found = reply(api, cut, json_schema=SCHEMA, partial=True)
    assert found.completion().parsed is None and found.finish_reason == "length"
