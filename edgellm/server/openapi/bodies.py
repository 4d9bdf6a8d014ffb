"""Bodies of requests that between them take all ways of the code that reads them: /openapi.json is recorded so."""

from typing import Any

_SCHEMA: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
_FUNCTION = {"name": "weather", "description": "The weather in a city", "parameters": _SCHEMA}
_TOOL = {"type": "function", "function": _FUNCTION}
_CALL = {"id": "call_1", "type": "function", "function": {"name": "weather", "arguments": '{"city": "Bonn"}'}}
_OLLAMA_CALL = {"id": "1", "function": {"name": "weather", "arguments": {"city": "Bonn"}}}
_TEXT = {"type": "text", "text": "Hi"}
_ASKED = {"role": "user", "content": "Hi"}
_FORM = {"type": "json_schema", "json_schema": {"name": "place", "schema": _SCHEMA, "strict": True}}

CHAT: list[dict[str, Any]] = [
    {"model": "m", "messages": [_ASKED], "stream": True, "stream_options": {"include_usage": True}},
    {
        "messages": [
            {"role": "system", "content": [_TEXT]},
            _ASKED,
            {"role": "assistant", "content": None, "tool_calls": [_CALL]},
            {"role": "tool", "tool_call_id": "call_1", "content": "Rain"},
        ],
        "tools": [_TOOL],
        "tool_choice": "auto",
    },
    {"messages": [_ASKED, {"role": "assistant", "content": "He"}], "continue_final_message": True},
    {"messages": [{"role": "user", "content": [{"type": "text", "refusal": "No"}]}], "response_format": _FORM},
]
COMPLETIONS: list[dict[str, Any]] = [
    {"model": "m", "prompt": "Once", "stream_options": {}},
    {"prompt": ["Once", [1, 2]], "response_format": _FORM},
]
RESPONSES: list[dict[str, Any]] = [
    {
        "model": "m",
        "input": "Hi",
        "instructions": "Be brief",
        "text": {"format": {"type": "json_schema", "name": "place", "schema": _SCHEMA}},
        "reasoning": {"effort": "low"},
        "tools": [{"type": "function", **_FUNCTION}],
        "tool_choice": {"type": "function", "name": "weather"},
    },
    {
        "input": [
            {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hi"}]},
            {"type": "reasoning", "id": "rs_1", "summary": []},
            {"type": "function_call", "call_id": "call_1", "name": "weather", "arguments": '{"city": "Bonn"}'},
            {"type": "function_call_output", "call_id": "call_1", "output": [{"type": "output_text", "text": "Rain"}]},
        ],
        "text": {"format": {"type": "text"}},
    },
]
MESSAGES: list[dict[str, Any]] = [
    {"model": "m", "max_tokens": 64, "system": "Be brief", "messages": [_ASKED], "thinking": {"type": "adaptive"}},
    {
        "model": "m",
        "max_tokens": 64,
        "system": [_TEXT],
        "messages": [
            {"role": "user", "content": [_TEXT, {"type": "redacted_thinking", "data": ""}]},
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Hm", "signature": ""},
                    {"type": "tool_use", "id": "1", "name": "weather", "input": {"city": "Bonn"}},
                ],
            },
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "1", "content": [_TEXT]}]},
        ],
        "tools": [{"name": "weather", "description": "The weather", "input_schema": _SCHEMA}],
        "tool_choice": {"type": "tool", "name": "weather"},
    },
]
OLLAMA_CHAT: list[dict[str, Any]] = [
    {"model": "m", "messages": [_ASKED], "options": {"temperature": 0.5}},
    {
        "model": "m",
        "messages": [
            _ASKED,
            {"role": "assistant", "thinking": "Hm", "tool_calls": [_OLLAMA_CALL]},
            {"role": "tool", "tool_name": "weather", "content": "Rain"},
        ],
        "tools": [_TOOL],
    },
]
OLLAMA_GENERATE: list[dict[str, Any]] = [{"model": "m", "prompt": "Once", "options": {}}]
SHOW: list[dict[str, Any]] = [{"model": "m"}, {"name": "m"}]
