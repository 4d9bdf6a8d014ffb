"""The file of MCP servers: what is read of it, and faults in one line that names the place."""

import json
from pathlib import Path
from typing import Any

import pytest

from edgellm.errors import EdgeLLMError, OptionError
from edgellm.mcp.config import ServerSettings, read_servers


def read(tmp_path: Path, content: Any) -> list[ServerSettings]:
    path = tmp_path / "mcp.json"
    path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
    return read_servers(path)


def test_settings_of_servers_are_read_and_those_of_other_programs_ignored(tmp_path: Path) -> None:
    full = {"command": "npx", "args": ["-y", "é"], "env": {"KEY": "v"}, "cwd": "/x", "type": "stdio", "timeout": 60}
    content = {"mcpServers": {"a": full, "b": {"command": "b"}, "c": {"url": "x", "disabled": True}}, "theme": "dark"}
    assert read(tmp_path, content) == [
        ServerSettings("a", "npx", ["-y", "é"], {"KEY": "v"}, "/x"),
        ServerSettings("b", "b", (), {}, None),
    ]
    assert read(tmp_path, {"mcpServers": {}}) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        ("{", "is not JSON: "),
        ("[]", 'has no servers; give {"mcpServers": {"name": {"command": '),
        ('{"servers": {}}', "has no servers"),
        ('{"mcpServers": []}', "has no servers"),
        ('{"mcpServers": {"a": "npx"}}', "has no servers"),
        *(
            (json.dumps({"mcpServers": {"a\x1b": {"command": "x"} | fields}}), f"mcpServers.a\\x1b{problem}")
            for fields, problem in (
                ({"command": None}, ".command is no text"),
                ({"command": ""}, ".command is no text"),
                ({"command": ["npx"]}, ".command is no text"),
                ({"command": "a\0b"}, ".command is no text"),
                ({"command": None, "url": "https://x"}, " is a server on the network; give one with a command, or"),
                ({"args": "x"}, ".args is no list of texts"),
                ({"args": [1]}, ".args is no list of texts"),
                ({"args": ["\0"]}, ".args is no list of texts"),
                ({"env": []}, ".env is no object of texts"),
                ({"env": {"A": 1}}, ".env is no object of texts"),
                ({"env": {"A\0": "x"}}, ".env is no object of texts"),
                ({"cwd": 1}, ".cwd is no path"),
            )
        ),
        ('{"mcpServers": {"": {"command": "x"}}}', "mcpServers: a server has no name"),
    ],
)
def test_faults_are_told_in_one_line(tmp_path: Path, content: str, problem: str) -> None:
    with pytest.raises(OptionError) as refused:
        read(tmp_path, content)
    message = str(refused.value)
    assert message.startswith(str(tmp_path / "mcp.json")) and problem in message and message.isprintable()


def test_a_file_that_cannot_be_read_is_told(tmp_path: Path) -> None:
    with pytest.raises(EdgeLLMError, match=r"none.json: there is no such file"):
        read_servers(tmp_path / "none.json")
