"""MCP servers as small programs: one of the package mcp, and others written by hand, which may be hostile."""

import json
import sys
from pathlib import Path
from textwrap import dedent
from typing import Any

_BY_HAND = """
import json, os, sys, time

def send(**message):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\\n")
    sys.stdout.flush()

def text(value):
    return {"content": [{"type": "text", "text": value}]}

def initialize(params):
    info = {"name": "by hand", "version": "1"}
    return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {"listChanged": True}}, "serverInfo": info}

def tools(params):
    return {"tools": [{"name": "echo", "description": "Echo.", "inputSchema": {"type": "object"}}]}

def call(params):
    return text(json.dumps(params["arguments"]))

"""

_LOOP = """
for line in sys.stdin:
    message = json.loads(line)
    method, answers = message.get("method"), {"initialize": initialize, "tools/list": tools, "tools/call": call}
    if method in answers:
        send(id=message["id"], result=answers[method](message.get("params") or {}))
    elif "id" in message and method:
        send(id=message["id"], error={"code": -32601, "message": "Method not found"})
"""

OF_THE_PACKAGE = """
    import os
    from mcp.server import MCPServer
    from mcp.types import ImageContent, TextContent

    server = MCPServer("real")

    @server.tool()
    def add(a: int, b: int = 1) -> int:
        "Add numbers."
        return a + b

    @server.tool()
    def look(what: str) -> list[TextContent | ImageContent]:
        "Look."
        image = ImageContent(type="image", data="AAAA" * 4000, mime_type="image/png")
        return [TextContent(type="text", text=f"a {what}"), image]

    @server.tool()
    def fail() -> str:
        "Fail."
        raise ValueError("broken")

    @server.tool()
    def secrets() -> str:
        "Tell the environment."
        return f"{os.environ.get('GIVEN')} {os.environ.get('EDGELLM_SECRET')} {os.getcwd()}"

    server.run()
"""


def entry(folder: Path, name: str, source: str, **fields: Any) -> dict[str, Any]:
    """The entry of a server that runs a program of Python."""
    (folder / f"{name}.py").write_text(dedent(source), encoding="utf-8")
    return {"command": sys.executable, "args": [str(folder / f"{name}.py")], **fields}


def by_hand(folder: Path, name: str, source: str = "") -> dict[str, Any]:
    """The entry of a server without packages, whose functions `initialize`, `tools` and `call` may be replaced."""
    program = entry(folder, name, _BY_HAND + dedent(source) + _LOOP)
    return {**program, "args": ["-S", *program["args"]]}


def servers_file(folder: Path, **entries: dict[str, Any]) -> Path:
    """The file of some servers."""
    (folder / "mcp.json").write_text(json.dumps({"mcpServers": entries}), encoding="utf-8")
    return folder / "mcp.json"
