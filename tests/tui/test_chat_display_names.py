"""Short names of models, for the screen."""

import pytest

from tui.core.display_names import display_name


@pytest.mark.parametrize(
    ("model", "limit", "expected"),
    [
        ("builtin", 12, "builtin"),
        ("/home/me/models/tiny.gguf", 30, "tiny.gguf"),
        ("C:\\models\\Tiny.GGUF", 30, "Tiny.GGUF"),
        ("bartowski/Llama-3.2-1B", 30, "bartowski/Llama-3.2-1B"),  # no file, but a name of a list
        ("Qwen2.5-Coder-7B-Instruct-Q4_K_M", 12, "Qwen2.…4_K_M"),
        ("a\x1b[2J", 12, "a\\x1b[2J"),
    ],
)
def test_a_model_is_called_by_what_tells_it_apart(model: str, limit: int, expected: str) -> None:
    assert display_name(model, limit) == expected
