"""Commands for the tools that the model may call, and for the schema that its replies follow."""

from edgellm.fmt import printable
from tui.commands.command import Frontend, SlashCommand
from tui.core.files import text_of, typed_file, typed_name
from tui.core.tool_lists import commands_text, schema_text, servers_text

OFF = "off"
"""The argument that removes tools, servers or the schema."""


def _tools(frontend: Frontend, argument: str) -> None:
    controller = frontend.controller
    if argument == OFF:
        controller.tools.drop_commands()
    elif argument:
        controller.model.check_calls()
        controller.tools.use_commands(typed_file(typed_name(argument)))
    if argument:
        controller.tokens.recount()
    frontend.say(commands_text(controller.tools))


def _mcp(frontend: Frontend, argument: str) -> None:
    controller = frontend.controller
    if argument == OFF:
        controller.tools.drop_servers()
        controller.tokens.recount()
    elif argument:
        controller.model.check_calls()
        controller.tools.open_servers(typed_file(typed_name(argument)))
    frontend.say(servers_text(controller.tools))


def _schema(frontend: Frontend, argument: str) -> None:
    tools, model = frontend.controller.tools, frontend.controller.model
    if argument == OFF:
        tools.drop_schema()
    elif argument:
        is_schema = argument.startswith("{") or argument in ("true", "false")
        name = typed_name(argument)
        text = argument if is_schema else text_of(name, "give a shorter schema")
        tools.use_schema(text, "/schema" if is_schema else printable(name, 400), model.settings.for_replies())
    frontend.say(f"schema of replies: {schema_text(tools)}")


COMMANDS = (
    SlashCommand("tools", "[FILE|off]", "let the model call the commands of a file; each run asks first", _tools),
    SlashCommand("mcp", "[FILE|off]", "start MCP servers, and let the model call their tools", _mcp),
    SlashCommand("schema", "[FILE|JSON|off]", "hold replies to a JSON schema", _schema),
)
