"""The schemas of answers and errors: the fields that each always has. Clients may meet further ones."""

from edgellm.server.fields import Schema

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
OBJECT: Schema = {"type": "object"}
TEXT_OR_NULL: Schema = {"type": ["string", "null"]}
OBJECT_OR_NULL: Schema = {"type": ["object", "null"]}


def having(**fields: Schema) -> Schema:
    """The schema of objects with these fields."""
    return {"type": "object", "properties": fields, "required": list(fields)}


def several(entry: Schema) -> Schema:
    """The schema of a list."""
    return {"type": "array", "items": entry}


def always(value: str) -> Schema:
    """The schema of one text."""
    return {"const": value}


_USAGE = having(
    prompt_tokens=COUNT,
    completion_tokens=COUNT,
    total_tokens=COUNT,
    prompt_tokens_details=having(cached_tokens=COUNT),
    completion_tokens_details=having(
        reasoning_tokens=COUNT, accepted_prediction_tokens=COUNT, rejected_prediction_tokens=COUNT
    ),
)
_REASON: Schema = {"enum": ["stop", "length", "tool_calls"]}
_MESSAGE = having(role=always("assistant"), content=TEXT_OR_NULL)
_HEAD = {"id": TEXT, "created": COUNT, "model": TEXT}
_CHAT_CHOICE = having(index=COUNT, message=_MESSAGE, logprobs=OBJECT_OR_NULL, finish_reason=_REASON)
_TEXT_CHOICE = having(index=COUNT, text=TEXT, logprobs=OBJECT_OR_NULL, finish_reason=_REASON)
CHAT = having(object=always("chat.completion"), **_HEAD, choices=several(_CHAT_CHOICE), usage=_USAGE)
COMPLETION = having(object=always("text_completion"), **_HEAD, choices=several(_TEXT_CHOICE), usage=_USAGE)
RESPONSE = having(
    object=always("response"),
    id=TEXT,
    created_at=NUMBER,
    model=TEXT,
    status={"enum": ["completed", "incomplete"]},
    output=several(having(type={"enum": ["message", "reasoning", "function_call"]}, id=TEXT, status=TEXT)),
    usage=having(input_tokens=COUNT, output_tokens=COUNT, total_tokens=COUNT),
)
MESSAGE = having(
    type=always("message"),
    id=TEXT,
    role=always("assistant"),
    model=TEXT,
    content=several(having(type={"enum": ["text", "thinking", "tool_use"]})),
    stop_reason={"enum": ["end_turn", "max_tokens", "stop_sequence", "tool_use"]},
    stop_sequence=TEXT_OR_NULL,
    usage=having(input_tokens=COUNT, output_tokens=COUNT),
)
_OLLAMA = {"model": TEXT, "created_at": TEXT, "done": FLAG, "done_reason": TEXT}
OLLAMA_CHAT = having(**_OLLAMA, message=having(role=always("assistant"), content=TEXT))
OLLAMA_GENERATE = having(**_OLLAMA, response=TEXT)
MODEL = having(id=TEXT, object=always("model"), created=COUNT, owned_by=TEXT)
MODELS = having(object=always("list"), data=several(MODEL))
TAGS = having(models=several(having(name=TEXT, model=TEXT, size=COUNT, digest=TEXT, details=OBJECT)))
SHOWN = having(template=TEXT, details=OBJECT, model_info=OBJECT, capabilities=several(TEXT))
VERSION = having(version=TEXT)
HEALTH = having(status=always("ok"), running=COUNT, waiting=COUNT)

OPENAI_ERROR = having(error=having(message=TEXT, type=TEXT, param=TEXT_OR_NULL, code=TEXT_OR_NULL))
ANTHROPIC_ERROR = having(type=always("error"), error=having(type=TEXT, message=TEXT))
OLLAMA_ERROR = having(error=TEXT)
