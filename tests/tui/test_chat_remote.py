"""The chat with a model of a server: figures, failures, calls of tools, and what goes where."""

import json
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from edgellm.remote.address import server_address
from support.chat_app import Driven, run
from support.chat_fakes import FakeModel
from support.chat_tools import PRINT, write_commands
from support.fake_api import DONE, TIMEOUT_S, Answer, FakeAPI, delta, event, failing, fake_api, listing, saying, usage
from support.headless_chat import HeadlessFrontend
from tui.app import ChatApp
from tui.chat import call_question
from tui.core.events import Notice, ReplyEnded
from tui.core.remote_backend import RemoteBackend
from tui.core.store import Store
from tui.instruments import status_text
from tui.models.screen import ModelsScreen
from tui.plain.views import VIEWS

KEY = "sk-very-secret"


@pytest.fixture
def api() -> Iterator[FakeAPI]:
    with fake_api() as found:
        found.models = listing({"id": "m", "max_model_len": 4096})
        yield found


@asynccontextmanager
async def talking(folder: Path, api: FakeAPI, model: str = "", opens: bool = True) -> AsyncIterator[Driven]:
    """The app with a model of a server."""
    backend = RemoteBackend(server_address(api.url), KEY)
    app = ChatApp(Store(folder / "chats.db"), backend, backend.reference(model))
    try:
        async with app.run_test(size=(130, 36)) as pilot:
            chat = Driven(app, pilot, FakeModel())
            model_of = app.controller.model
            await chat.until(lambda: model_of.opened if opens else model_of.error)
            yield chat
    finally:
        app.controller.close()


@contextmanager
def headless(folder: Path, api: FakeAPI) -> Iterator[HeadlessFrontend]:
    """The chat without a screen, with the only model of a server."""
    backend = RemoteBackend(server_address(api.url), KEY)
    frontend = HeadlessFrontend(folder / "chats.db", backend=backend)
    try:
        frontend.open(backend.reference(""))
        yield frontend
    finally:
        frontend.controller.close()


def posts(api: FakeAPI) -> list[Any]:
    return [asked.body for asked in api.asked if asked.body is not None]


def test_the_models_are_listed_at_once_if_there_are_several(tmp_path: Path, api: FakeAPI) -> None:
    api.models = listing({"id": "first"}, {"id": "second"})

    async def test() -> None:
        async with talking(tmp_path, api, opens=False) as chat:
            await chat.until(lambda: isinstance(chat.app.screen, ModelsScreen))
            await chat.until(lambda: "second" in chat.shown())
            assert "first" in chat.shown()

    run(test())


def test_a_conversation_with_figures(tmp_path: Path, api: FakeAPI) -> None:
    first = Answer([delta(reasoning_content="hm"), delta(content="Hel"), delta(content="lo"), delta("stop")])
    first.pieces = [*first.pieces, usage(900, 124, 800), DONE]
    api.say(first, Answer([delta(content="Bye"), delta("stop")]))

    async def test() -> None:
        async with talking(tmp_path, api) as chat:
            assert f"What you say here goes to {api.host}" in chat.shown()
            assert "leaves this machine" not in chat.shown()
            await chat.say("Hi")
            shown = chat.shown()
            assert "Hello" in shown and "124 generated" in shown and "800 of 900 cached" in shown
            assert f"m at {api.host}" in shown and "1,024 of 4,096" in shown  # the status line
            await chat.say("Bye")
            assert "1 piece" in chat.shown()  # no usage
            assert "of 4,096" not in chat.shown()
            assert posts(api)[1]["messages"] == [
                {"role": "user", "content": "Hi"},
                {"role": "assistant", "content": "Hello"},
                {"role": "user", "content": "Bye"},
            ]

    run(test())


def test_a_server_that_stalls_shows_and_can_be_stopped(
    tmp_path: Path, api: FakeAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(status_text, "_SILENT_S", 0.0)
    waits, stalls = Answer([delta(content="a")], hold=0), Answer([delta(content="so far"), delta(content="x")], hold=1)
    api.say(waits, stalls, saying("Well."))

    async def test() -> None:
        async with talking(tmp_path, api) as chat:
            await chat.type("Hi")
            await chat.until(lambda: waits.held.is_set() and "waiting" in chat.shown())
            await chat.press("escape")
            await chat.until(lambda: chat.app.controller.replies.running is None)
            await chat.type("Hi")
            await chat.until(lambda: "so far" in chat.shown() and "nothing for" in chat.shown())
            await chat.press("escape")
            await chat.until(lambda: chat.app.controller.replies.running is None)
            assert chat.texts[-1] == "so far" and "stopped by you" in chat.shown()
            await chat.say("Again")
            assert chat.texts[-1] == "Well."

    try:
        run(test())
    finally:
        waits.go.set()
        stalls.go.set()


@pytest.mark.parametrize(
    ("answer", "words", "text"),
    [
        (failing(429, "busy", retry_after="7"), "try again in 7 s", ""),
        (failing(401), "refuses the key (401)", ""),
        (Answer([delta(content="so far")], cut=True), "ended the connection", "so far"),
        (Answer([delta(content="so far"), event(error={"message": "no memory"})]), "no memory", "so far"),
        (Answer([delta(content="so far"), b"data: {\n\n"]), "not JSON", "so far"),
    ],
)
def test_a_failure_is_a_line_and_the_conversation_goes_on(
    tmp_path: Path, api: FakeAPI, answer: Answer, words: str, text: str
) -> None:
    api.say(answer, saying("Well."))
    with headless(tmp_path, api) as chat:
        chat.say("Hi")
        chat.until(Notice)
        assert words in chat.notices[-1] and "\n" not in chat.notices[-1]
        assert chat.texts == ["Hi", text]
        chat.controller.sender.regenerate()
        chat.until(ReplyEnded)
        assert chat.texts == ["Hi", "Well."]
        assert posts(api)[1]["messages"] == [{"role": "user", "content": "Hi"}]


def test_a_server_that_is_not_there_shows_why_and_may_come(tmp_path: Path, api: FakeAPI) -> None:
    api.models = failing(503, "starting", retry_after="9")
    api.say(saying("Hello"))

    async def test() -> None:
        async with talking(tmp_path, api, opens=False) as chat:
            assert "starting; try again in 9 s" in chat.shown() and "pull" not in chat.shown()
            api.models = listing({"id": "m"})
            await chat.type("/model m")
            await chat.until(lambda: chat.app.controller.model.opened)
            await chat.say("Hi")
            assert chat.texts == ["Hi", "Hello"]

    run(test())


def test_calls_of_tools_ask_run_and_go_back(tmp_path: Path, api: FakeAPI, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(call_question, "_TWICE_S", 0.0)
    begun = {"index": 0, "id": "theirs", "type": "function", "function": {"name": "weather", "arguments": '{"ci'}}
    rest = {"index": 0, "function": {"arguments": 'ty": "Rome"}'}}
    calls = Answer([delta(content="Let me see."), delta(tool_calls=[begun]), delta(tool_calls=[rest])])
    calls.pieces = [*calls.pieces, delta("tool_calls"), DONE]
    api.say(calls, saying("It is sunny."))

    async def test() -> None:
        async with talking(tmp_path, api) as chat:
            await chat.type(f"/tools {write_commands(tmp_path / 'tools.json', weather=PRINT)}")
            await chat.type("How is it?")
            await chat.until(lambda: "Run weather?" in chat.shown())
            await chat.press("f5")
            await chat.until(lambda: "It is sunny." in chat.shown())
            assert [tool["function"]["name"] for tool in posts(api)[0]["tools"]] == ["weather"]
            calling, result = posts(api)[1]["messages"][1:]
            assert json.loads(calling["tool_calls"][0]["function"]["arguments"]) == {"city": "Rome"}
            assert result["role"] == "tool" and result["tool_call_id"] == calling["tool_calls"][0]["id"]
            assert "Rome is sunny" in result["content"]

    run(test())


def test_text_of_a_server_cannot_act_on_the_terminal(tmp_path: Path, api: FakeAPI) -> None:
    api.say(saying("red \x1b[31m bell \x07", " \x9b2J end \u202e"))

    async def test() -> None:
        async with talking(tmp_path, api) as chat:
            await chat.say("Hi")
            assert "red ␛[31m bell ␇ \ufffd2J end" in chat.shown()

    run(test())


def test_the_models_of_the_server_are_chosen_from(tmp_path: Path, api: FakeAPI) -> None:
    api.models = listing({"id": "org/small"}, {"id": "org/large.gguf"})
    api.say(saying("Hello"))

    async def test() -> None:
        async with talking(tmp_path, api, "org/small") as chat:
            await chat.press("f3")
            await chat.until(lambda: "org/large.gguf" in chat.shown())
            assert f"at {api.host}" in chat.shown() and "Hugging Face" not in chat.shown()
            await chat.press("down", "enter")
            await chat.until(
                lambda: chat.app.controller.model.opened and "large" in (chat.app.controller.model.name or "")
            )
            await chat.say("Hi")
            assert posts(api)[0]["model"] == "org/large.gguf"

    run(test())


def test_a_list_that_a_server_does_not_give_says_why(tmp_path: Path, api: FakeAPI) -> None:
    async def test() -> None:
        async with talking(tmp_path, api) as chat:
            names = chat.app.controller.model_names
            names.names = ["m"]
            api.models = failing(503, "too busy", retry_after="9")
            await chat.press("f3")
            await chat.until(lambda: "cannot be opened" in chat.shown())
            assert "too busy" in chat.shown()
            names._refresh()
            assert names.names == ["m"]
            assert [line for line in VIEWS["models"](chat.app.controller) if "too busy" in line]

    run(test())


LOCAL_ONLY = {
    "/set ctx 4096": "ctx is a setting of the server",
    "/set overflow drop": "overflow is a setting of the server",
    "/continue": "this server does not continue replies",
    "/tokens": "only the server counts tokens",
    "/tokens some text": "only the server counts tokens",
}


def test_a_reply_is_continued_by_a_server_that_can(tmp_path: Path, api: FakeAPI) -> None:
    api.models = listing({"id": "m", "owned_by": "vllm"})
    api.say(Answer([delta(content="Hel"), delta("length")]), saying("lo"))
    with headless(tmp_path, api) as chat:
        chat.say("Hi")
        chat.controller.sender.continue_reply()
        chat.until(ReplyEnded)
        assert chat.texts == ["Hi", "Hello"]
    sent = posts(api)[1]
    assert sent["messages"] == [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hel"}]
    assert (sent["continue_final_message"], sent["add_generation_prompt"]) == (True, False)


def test_what_needs_a_model_on_this_machine_says_so(tmp_path: Path, api: FakeAPI) -> None:
    api.say(saying("Hello"))

    async def test() -> None:
        async with talking(tmp_path, api) as chat:
            await chat.say("Hi")
            for line, words in LOCAL_ONLY.items():
                await chat.type(line)
                await chat.until(lambda words=words: any(words in notice for notice in chat.notices))  # type: ignore[misc]
            assert chat.texts == ["Hi", "Hello"]
            await chat.press("escape")
            await chat.type("/inspect")
            await chat.until(lambda: "the server makes the prompt" in chat.shown())

    run(test())


def test_settings_are_those_that_a_request_has(tmp_path: Path, api: FakeAPI) -> None:
    api.say(saying("Hello"))

    async def test() -> None:
        async with talking(tmp_path, api) as chat:
            await chat.type("/set temp 0.8")
            await chat.type("/think")
            await chat.press("f4")
            await chat.until(lambda: "by the server" in chat.shown())
            assert "repeat_penalty" in chat.shown() and "gpu_layers" not in chat.shown()
            await chat.press("escape")
            await chat.say("Hi")
            sent = posts(api)[0]
            assert (sent["temperature"], sent["chat_template_kwargs"]) == (0.8, {"enable_thinking": False})
            assert "top_p" not in sent

    run(test())


def test_a_file_goes_with_the_message(tmp_path: Path, api: FakeAPI) -> None:
    api.say(saying("Read."))
    (tmp_path / "notes.txt").write_text("buy milk")

    async def test() -> None:
        async with talking(tmp_path, api) as chat:
            await chat.type(f"/file {tmp_path / 'notes.txt'}")
            await chat.say("See")
            assert "buy milk" in posts(api)[0]["messages"][0]["content"]

    run(test())


def test_a_chat_is_stored_without_the_key_and_comes_back(tmp_path: Path, api: FakeAPI) -> None:
    api.say(saying("Hello"), saying("Again"))
    with headless(tmp_path, api) as chat:
        chat.say("Hi")
    assert all(KEY.encode() not in path.read_bytes() for path in tmp_path.glob("chats.db*"))
    with headless(tmp_path, api) as chat:
        chat.controller.chats.open(1)
        chat.say("More")
        assert chat.texts == ["Hi", "Hello", "More", "Again"] and len(posts(api)[1]["messages"]) == 3
        assert chat.controller.store.load(1).path == f"{api.url}/v1#m"
        assert chat.controller.store.preferences.get("model", None) is None  # a chat without --server begins here


@pytest.mark.parametrize("path", ["http://192.0.2.1/v1#m", "https://evil.example/v1#m", "unix:/tmp/s#m"])
def test_no_stored_chat_leads_to_a_server(tmp_path: Path, path: str) -> None:
    frontend = HeadlessFrontend(tmp_path / "chats.db")
    frontend.open()
    for model in ("m at host", path):
        chat = frontend.controller.store.new_chat("t", None, model, path if model != path else None)
        frontend.controller.chats.open(chat)
        frontend.until(Notice)
        assert "this chat was with" in frontend.notices[-1] and "a model of this machine" in frontend.notices[-1]
    assert [name for name, _ in frontend.backend.opened] == ["fake"]
    frontend.controller.close()


def test_a_chat_of_this_machine_goes_on_at_the_server(tmp_path: Path, api: FakeAPI) -> None:
    api.say(saying("Hello"))
    with headless(tmp_path, api) as chat:
        number = chat.controller.store.new_chat("t", None, "llama", "/models/llama.gguf")
        chat.controller.chats.open(number)
        chat.until(Notice)
        assert f"a model of {api.host}" in chat.notices[-1]
        chat.say("Hi")
        assert chat.texts == ["Hi", "Hello"]


def test_leaving_amid_a_reply_closes_its_connection(tmp_path: Path, api: FakeAPI) -> None:
    answer = Answer([delta(content="so far"), *[delta(content="x" * 1000)] * 5000], hold=1)
    api.say(answer)
    with headless(tmp_path, api) as chat:
        chat.controller.sender.send("Hi")
        assert answer.held.wait(TIMEOUT_S)
    answer.go.set()
    assert api.gone.wait(TIMEOUT_S)
