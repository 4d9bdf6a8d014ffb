"""The picker by its keys: what is shown, chosen, filtered, and that no file can hold it up."""

import threading
from collections.abc import Iterator

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import OptionList

from support.local_models import Machine, machine
from support.make_gguf import write_model
from support.tui_models_app import PickerApp, complete, play, until
from tui.models.row import ModelRow

__all__ = ["machine"]

ROWS = (
    ModelRow("builtin", "edgellm", 13_000_000, "Q4_K_M", 8_470_000, 1024, "fits"),
    ModelRow("Qwen3-1.7B-Q8_0", "edgellm", 1_720_000_000, "Q8_0", 1_830_000_000, 40_960, "tight", note="a note"),
    ModelRow("llama-3.3-70b", "ollama", 70_600_000_000, "Q4_K_M", 42_500_000_000, 131_072, "too large"),
    ModelRow("cut", "./models", bytes=4711, problem="ends in the middle of tensor blk.0; download it again"),
)
OFFERED = (ModelRow("Qwen/Qwen3-4B-GGUF", "Hugging Face", bytes=2_500_000_000, fit="fits", note="math", offered=True),)


@pytest.fixture
def rows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tui.models.catalog.local_rows", lambda: iter(ROWS))
    monkeypatch.setattr("tui.models.catalog.offered_rows", lambda: iter(OFFERED))


@pytest.fixture
def no_pull(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The pulls that were begun; none of them runs."""
    begun: list[str] = []
    monkeypatch.setattr("tui.models.pull.Pull.start", lambda pull: begun.append(pull.reference))
    return begun


@pytest.mark.usefixtures("rows")
def test_it_lists_models_in_sections() -> None:
    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        shown = [line.strip("│ ") for line in app.lines if line.startswith("│")]
        words = [" ".join(line.split()) for line in shown if line]
        assert words[1:9] == [
            "on this machine params type size context memory from",
            "builtin 13 M Q4_K_M 8.47 MB 1,024 fits edgellm",
            "Qwen3-1.7B-Q8_0 1.72 B Q8_0 1.83 GB 40,960 tight edgellm",
            "llama-3.3-70b 70.6 B Q4_K_M 42.5 GB 131,072 too large ollama",
            "to pull from Hugging Face size memory good at",
            "Qwen/Qwen3-4B-GGUF 2.5 GB fits math",
            "cannot be opened",
            "cut ends in the middle of tensor blk.0; download it again",
        ]

    play(script)


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("keys", "chosen"),
    [
        ("enter", ["builtin"]),
        ("down enter", ["Qwen3-1.7B-Q8_0"]),
        ("down down up enter", ["Qwen3-1.7B-Q8_0"]),
        ("escape", [None]),
        ("7 0 b enter", ["llama-3.3-70b"]),
        ("q 8 enter", ["Qwen3-1.7B-Q8_0"]),
        ("o l l a m a enter", ["llama-3.3-70b"]),
        ("c u t enter", []),
        ("x y z enter", []),
        ("x y z backspace backspace backspace down enter", ["Qwen3-1.7B-Q8_0"]),
        ("full_stop slash a enter", ["./a"]),
    ],
)
def test_keys_choose(keys: str, chosen: list[str | None]) -> None:
    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        await pilot.press(*keys.split())
        await pilot.pause()

    assert play(script).chosen == chosen


@pytest.mark.usefixtures("rows")
def test_what_is_typed_before_enter_counts_however_fast_it_comes() -> None:
    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        for key in "70b":
            app.post_message(events.Key(key, key))
        app.post_message(events.Key("enter", None))
        await until(pilot, lambda: app.chosen)

    assert play(script).chosen == ["llama-3.3-70b"]


@pytest.mark.usefixtures("rows")
def test_what_is_highlighted_is_reported_in_full() -> None:
    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        await pilot.press("down")
        assert "a note" in app.text
        await pilot.press(*"cut")
        await pilot.pause()
        assert "\n│ ends in the middle of tensor blk.0; download it again" in app.text
        await pilot.press(*"xyz")
        await pilot.pause()
        assert "no model here has this name" in app.text

    play(script, size=(60, 20))


@pytest.mark.usefixtures("rows")
def test_the_open_model_is_marked_and_highlighted() -> None:
    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        assert app.pointed == "Qwen3-1.7B-Q8_0"
        assert [line for line in app.lines if "●" in line] == [line for line in app.lines if "1.72 B" in line]

    play(script, current="Qwen3-1.7B-Q8_0")


def test_a_model_that_cannot_chat_is_not_the_first_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    base = ModelRow("a-base", "edgellm", chats=False)
    monkeypatch.setattr("tui.models.catalog.local_rows", lambda: iter((base, *ROWS)))
    monkeypatch.setattr("tui.models.catalog.offered_rows", lambda: iter(OFFERED))

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        assert app.pointed == "builtin"
        await pilot.press("up")
        assert app.pointed == "a-base"
        await pilot.press(*"a-base")
        await pilot.press("enter")
        await pilot.pause()

    assert play(script).chosen == ["a-base"]


@pytest.mark.usefixtures("rows")
def test_a_click_chooses(no_pull: list[str]) -> None:
    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        await pilot.click(OptionList, offset=(5, 6))  # two headings, three models and a space are above it
        await pilot.click(OptionList, offset=(5, 0))  # a heading is nothing
        await pilot.click(OptionList, offset=(5, 2))

    assert play(script).chosen == ["Qwen3-1.7B-Q8_0"]
    assert no_pull == ["Qwen/Qwen3-4B-GGUF"]


@pytest.mark.usefixtures("rows")
def test_what_is_not_here_is_pulled(no_pull: list[str]) -> None:
    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        await pilot.press(*"org/name:q8_0", "enter")
        await pilot.pause()

    assert play(script).chosen == []
    assert no_pull == ["org/name:q8_0"]


@pytest.mark.usefixtures("rows")
@pytest.mark.parametrize(
    ("width", "head"), [(80, "params type size context memory"), (60, "type size memory"), (40, "memory")]
)
def test_narrow_terminals_have_fewer_columns(width: int, head: str) -> None:
    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        await pilot.resize_terminal(width, 24)
        await pilot.pause()
        (line,) = [line for line in app.lines if "on this machine" in line]
        assert " ".join(line.strip("│ ").split()) == f"on this machine {head}"
        assert max(map(len, app.lines)) == width
        assert "too large" in app.text

    play(script)


def test_a_file_that_never_answers_holds_up_nothing(monkeypatch: pytest.MonkeyPatch, no_pull: list[str]) -> None:
    """What is known can be chosen; nothing is pulled that only stands there for want of a model."""
    answers = threading.Event()

    def slow() -> Iterator[ModelRow]:
        yield ROWS[3]
        answers.wait(30)
        yield ROWS[0]

    monkeypatch.setattr("tui.models.catalog.local_rows", slow)
    monkeypatch.setattr("tui.models.catalog.offered_rows", lambda: iter(OFFERED))

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await until(pilot, lambda: len(app.picker._catalog.rows) == 2)
        assert "looking for models" in app.text
        await pilot.press("enter")
        assert app.chosen == []
        answers.set()
        await until(pilot, lambda: app.pointed == "builtin")
        assert "looking for models" not in app.text

    play(script)
    assert no_pull == []


def test_it_can_be_left_while_a_file_never_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    answers = threading.Event()

    def slow() -> Iterator[ModelRow]:
        answers.wait(30)
        yield ROWS[0]

    monkeypatch.setattr("tui.models.catalog.local_rows", slow)
    monkeypatch.setattr("tui.models.catalog.offered_rows", lambda: iter(()))

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await pilot.press("escape")
        await pilot.pause()

    assert play(script).chosen == [None]
    answers.set()


def test_real_files_and_damaged_ones(machine: Machine) -> None:
    (machine.here / "models").mkdir()
    whole = write_model(machine.here / "models/tiny.gguf", types="Q8_0", width=64, heads=1, kv_heads=1, ffn=64)
    machine.write("models/cut.gguf", whole.read_bytes()[:3000])
    machine.write("models/text.gguf", b"hello")
    machine.write("models/evil\x1b[2J\u202e.gguf", b"hello")

    async def script(app: PickerApp, pilot: Pilot[None]) -> None:
        await complete(app, pilot)
        assert app.pointed == "tiny"
        await pilot.press(*"cut")
        await pilot.pause()
        assert app.pointed == "cut"
        await pilot.press(*["backspace"] * 3, *"evil", "enter")
        await pilot.pause()
        assert app.text.count("evil\\x1b[2J\\u202e") == 2, "in the list, and where more of it is told"
        assert not {"\x1b", "\u202e"} & set(app.text)
        await pilot.press(*["backspace"] * 4, *"tiny", "enter")
        await pilot.pause()

    assert play(script).chosen == ["tiny"]
