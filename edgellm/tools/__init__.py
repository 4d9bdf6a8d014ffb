"""Tools: definitions, and calls of them in replies.

tool            a tool, from a function or an OpenAI definition (`definitions`)
signatures      definitions from functions: `type_schemas`, `docstrings`; `python_values` is the way back
calls           a call, and a call that does not parse
formats         how families of models write calls, one module each; `call_format` describes one
reader          reads the calls in a reply as it comes
source          the text of a reply, read by generators; `symbols` are its control tokens, `notation` its values
use             the tools of one reply; `collector` keeps its calls apart from its text
chat_tools      the tools of a chat; `running` runs functions, `messages` are those of calls and results
commands        commands of the user as tools; `results` cuts what they and MCP servers answer
maker           makes calls of what was read
grammar         grammars of replies with calls, as text; `argument_rules` and `schemas` are those of arguments
schema_parts    the schemas inside of a schema, and values of keywords that no schema has
"""
