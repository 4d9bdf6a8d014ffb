"""What replies of the tests of guides conform to, and a template whose replies may think."""

from typing import Any

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 6},
        "kind": {"enum": ["small", "smaller", "large"]},
        "values": {"type": "array", "items": {"type": "integer", "minimum": 0, "maximum": 99}, "maxItems": 3},
        "description": {"const": "always the same, and longer than any draft"},
    },
    "required": ["name", "kind", "values", "description"],
    "additionalProperties": False,
}
THINKS = "{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}<|assistant|>{# <think></think> #}"
