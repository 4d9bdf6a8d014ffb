"""Completion of command lines: commands, settings, models, files."""

from pathlib import Path
from threading import Event, current_thread, main_thread

import pytest

from support.chat_app import driving, run
from support.chat_fakes import FakeModel
from tui.commands.completion import complete
from tui.core.edge_backend import EdgeBackend
from tui.core.store import Store

MODELS = ("builtin", "bartowski/Llama-3.2-1B", "Qwen3-0.6B-Q8_0", "two words")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "models").mkdir()
    for name in ("models/tiny.gguf", "notes.md"):
        (tmp_path / name).write_bytes(b"")
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    ("line", "texts"),
    [
        ("/mo", ["/model"]),
        ("/EXP", ["/export "]),
        ("/set overflow ", ["stop", "drop", "window", "default"]),
        ("/set top_", ["top_k ", "top_p "]),
        ("/set draft ", ["auto", "off", "default", "builtin", "bartowski/Llama-3.2-1B", "Qwen3-0.6B-Q8_0"]),
        ("/set draft ./models/", ["./models/tiny.gguf"]),
        ("/set template l", ["llama2", "llama3"]),
        ("/set template ./", ["./models/", "./notes.md"]),
        ("/model ", ["builtin", "bartowski/Llama-3.2-1B", "Qwen3-0.6B-Q8_0"]),
        ("/model b", ["builtin", "bartowski/Llama-3.2-1B"]),
        ("/model QWEN", ["Qwen3-0.6B-Q8_0"]),
        ("/model ./", ["./models/"]),
        ("/model ./models/", ["./models/tiny.gguf"]),
        ("/file n", ["notes.md"]),
        ("/tools n", ["notes.md"]),
        ("/mcp o", ["off"]),
        ("/schema ", ["off", "models/", "notes.md"]),
        ("hello /mo", []),
        ("//mo", []),
        ("/model\nb", []),
    ],
)
def test_what_a_line_can_become(folder: Path, line: str, texts: list[str]) -> None:
    assert [completion.text for completion in complete(line, len(line), MODELS)] == texts


def test_the_names_of_models_come_from_a_thread_once_the_model_is_open(tmp_path: Path) -> None:
    found, threads = Event(), list[bool]()

    def find() -> list[str]:
        threads.append(current_thread() is main_thread())
        assert found.wait(20)
        return ["builtin"]

    async def test() -> None:
        async with driving(Store(tmp_path / "chats.db"), FakeModel(), "fake", None, (100, 30), find) as chat:
            await chat.press(*"/model bu")
            assert chat.composer.query_one("Popup").display is False
            found.set()
            await chat.until(lambda: chat.app.controller.model_names.names)
            await chat.press("i", "enter")
            await chat.until(lambda: chat.app.controller.model.name == "builtin")

    run(test())
    assert threads and not any(threads)


def test_the_names_are_those_that_a_model_is_opened_by(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(folder))
    assert "builtin" in EdgeBackend().names()
    assert any(name.startswith("tiny") for name in EdgeBackend().names())
