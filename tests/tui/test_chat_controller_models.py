"""The chat controller: models, and their settings."""

from pathlib import Path
from threading import Event as Flag

import pytest

from edgellm.errors import EdgeLLMError, OptionError
from support.chat_fakes import FakeModel
from support.headless_chat import MakeFrontend
from tui.core.events import ModelFailed, ModelOpened, Notice, ReplyEnded
from tui.core.store import SavedChat
from tui.core.store.export import to_json
from tui.core.worker import Worker


def test_settings_are_stored_for_each_model(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.controller.model.set("temp", "0.5")
    frontend.controller.model.set("overflow", "drop")
    frontend.say("hello")
    assert frontend.backend.model.options == [{"temp": 0.5, "overflow": "drop"}]
    frontend.open("other")
    assert frontend.controller.settings.values == {}
    frontend.open("fake")
    assert frontend.controller.settings.values == {"temp": 0.5, "overflow": "drop"}
    frontend.controller.model.set("temp", "")
    assert frontend.controller.settings.values == {"overflow": "drop"}
    frontend.controller.model.reset()
    assert make_frontend().controller.store.preferences.settings("fake") == {}


def test_a_wrong_value_is_refused_and_changes_nothing(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    for name, value in (("temp", "hot"), ("top_k", "-3"), ("overflow", "maybe"), ("nonsense", "1")):
        with pytest.raises(OptionError):
            frontend.controller.model.set(name, value)
    assert frontend.controller.settings.values == {}


def test_a_setting_of_loading_opens_the_model_anew(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.controller.model.set("ctx", "1024")
    frontend.until(ModelOpened)
    assert frontend.backend.opened == [("fake", {}), ("fake", {"ctx": 1024})]


def test_thinking_is_switched_where_the_template_can(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    with pytest.raises(EdgeLLMError, match="no switch"):
        frontend.controller.model.switch_thinking()
    frontend.open()
    assert frontend.controller.model.switch_thinking() is False
    frontend.say("hello")
    assert frontend.backend.model.options == [{"template_args": {"enable_thinking": False}}]
    assert frontend.controller.model.switch_thinking() is True


def test_the_effort_is_set_where_the_template_takes_one(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend(FakeModel(effort=True))
    with pytest.raises(EdgeLLMError, match="takes no effort"):
        frontend.controller.model.set_effort("high")
    frontend.open()
    with pytest.raises(EdgeLLMError, match="there is no effort much; choose low, medium, high"):
        frontend.controller.model.set_effort("much")
    frontend.controller.model.set_effort("high")
    frontend.say("hello")
    frontend.controller.model.set_effort(None)
    frontend.say("hello")
    assert frontend.backend.model.options == [{"template_args": {"reasoning_effort": "high"}}, {}]


def test_a_model_that_fails_is_a_notice(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.controller.model.open("missing")
    frontend.say("hello")
    frontend.until(Notice)
    assert "there is no such model" in frontend.notices[0]
    assert frontend.controller.conversation.path[0].text == "hello"


def test_a_slip_of_the_pen_leaves_the_model_open(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open("one")
    frontend.controller.model.set("temp", "0.5")
    frontend.controller.model.open("no-such")
    frontend.controller.sender.send("hello")  # goes to the model that is open in the end
    frontend.until(ReplyEnded)
    if not frontend.notices:  # which of the two comes first is open
        frontend.until(Notice)
    assert (frontend.texts[-1], frontend.backend.model.closed) == ("You said: hello", False)
    assert (
        frontend.controller.model.name,
        frontend.controller.model.opened and frontend.controller.model.opened.name,
    ) == ("one", "one")
    assert frontend.controller.settings.values == {"temp": 0.5}
    assert ["there is no such model" in line for line in frontend.notices] == [True]
    frontend.open("two")
    frontend.controller.model.open("no-such")
    frontend.controller.model.open("three")
    frontend.until(ModelOpened)
    assert frontend.controller.model.name == "three"


def test_what_is_to_be_set_for_one_model_is_not_set_for_the_one_that_stays_open(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open("one")
    frontend.controller.model.open("base")
    frontend.until(Notice)
    assert frontend.notices[-1].endswith("; one stays open, and /set applies to it")


def test_why_no_model_is_open_is_known_until_another_is_wanted(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.controller.model.open("missing")
    frontend.until(ModelFailed)
    assert "there is no such model" in (frontend.controller.model.error or "")
    frontend.open("two")
    frontend.controller.on_event(ModelFailed("missing", "too late"))
    assert frontend.controller.model.error is None


def test_a_model_is_not_lost_to_a_setting_that_it_cannot_be_opened_with(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.controller.model.set("ctx", "512")
    frontend.until(ModelOpened)
    frontend.controller.model.set("temp", "0.5")
    frontend.controller.model.set("ctx", "99999")
    frontend.until(ModelFailed)
    assert frontend.controller.settings.values == {"ctx": 512, "temp": 0.5}
    frontend.say("hello")
    assert frontend.texts == ["hello", "You said: hello"]
    again = make_frontend()
    again.open()
    assert again.backend.opened == [("fake", {"ctx": 512})]


def test_a_model_asked_for_while_another_loads_is_the_one_in_the_end(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open("first")
    frontend.controller.model.set("ctx", "1024")  # so that settings of the two differ
    frontend.until(ModelOpened)
    frontend.open("second")
    frontend.controller.model.open("first")
    frontend.controller.model.open("second")
    while frontend.controller.model.opened is None:
        frontend.until(ModelOpened)
    frontend.controller.worker.close()
    frontend.controller.worker = Worker(frontend.backend, frontend.events.put)  # the fixture closes one
    assert frontend.controller.model.name == frontend.controller.model.opened.name == "second"
    assert frontend.backend.opened[-1] == ("second", {})
    assert not [event for event in frontend.events.queue if isinstance(event, ModelOpened)]


def test_a_model_by_its_path_is_opened_once_with_the_settings_of_its_name(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.controller.store.preferences.save_settings("model", {"ctx": 512, "temp": 0.5})
    frontend.backend.named["/there/model.gguf"] = "model"
    frontend.controller.model.open("/there/model.gguf")
    frontend.controller.sender.send("typed while it loads")
    frontend.until(ReplyEnded)
    assert frontend.backend.opened == [("model", {"ctx": 512})]
    assert (frontend.controller.model.name, frontend.controller.settings.values) == ("model", {"ctx": 512, "temp": 0.5})
    assert frontend.texts == ["typed while it loads", "You said: typed while it loads"]


def test_what_is_set_while_a_model_is_opened_by_its_path_is_kept_under_its_name(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.backend.named["/there/model.gguf"] = "model"
    frontend.backend.wait = Flag()
    frontend.controller.store.preferences.save_settings("model", {"top_k": 5})
    frontend.controller.model.open("/there/model.gguf")
    frontend.controller.model.set("temp", "0.5")
    frontend.controller.model.set("ctx", "512")
    frontend.backend.wait.set()
    frontend.until(ModelOpened)
    assert frontend.controller.settings.values == {"top_k": 5, "temp": 0.5, "ctx": 512}
    assert frontend.backend.opened[-1] == ("model", {"ctx": 512})
    assert frontend.controller.store.preferences.settings("/there/model.gguf") == {"top_k": 5, "temp": 0.5, "ctx": 512}
    assert frontend.controller.store.preferences.settings("model") == {}


def test_files_of_the_same_name_have_settings_of_their_own(make_frontend: MakeFrontend) -> None:
    """Settings that version 1 stored under their common name go to the model that is opened first."""
    frontend = make_frontend()
    frontend.controller.store.preferences.save_settings("m", {"ctx": 512, "thinking": False})
    frontend.backend.named = {"/one/m.gguf": "m", "/two/m.gguf": "m"}
    frontend.open("/one/m.gguf")
    frontend.controller.model.set("temp", "0.5")
    assert (frontend.controller.settings.values, frontend.controller.settings.thinking) == (
        {"ctx": 512, "temp": 0.5},
        False,
    )
    frontend.open("/two/m.gguf")
    assert (frontend.controller.settings.values, frontend.controller.settings.thinking) == ({}, None)
    frontend.controller.model.set("temp", "0.7")
    frontend.open("/one/m.gguf")
    assert frontend.controller.settings.values == {"ctx": 512, "temp": 0.5}
    assert [options for _, options in frontend.backend.opened] == [{"ctx": 512}, {}, {"ctx": 512}]


def test_a_path_means_the_same_from_every_folder(
    make_frontend: MakeFrontend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frontend = make_frontend()
    monkeypatch.chdir(tmp_path)
    frontend.open("models/m.gguf")
    frontend.controller.model.set("temp", "0.5")
    frontend.say("hello")
    chat = frontend.controller.conversation.chat.id
    assert frontend.controller.store.load(chat).path == f"{tmp_path}/models/m.gguf"
    assert frontend.controller.store.preferences.get("model", "") == f"{tmp_path}/models/m.gguf"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    frontend.controller.chats.new()
    frontend.open("models/m.gguf")
    assert frontend.controller.settings.values == {}
    frontend.controller.chats.open(chat)
    frontend.until(ModelOpened)
    assert frontend.controller.model.path == f"{tmp_path}/models/m.gguf"
    assert frontend.controller.settings.values == {"temp": 0.5}


def test_a_chat_opens_with_its_own_model(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.backend.paths = {"one": "/there/one.gguf", "two": "/there/two.gguf"}
    frontend.open("one")
    frontend.say("hello")
    first = frontend.controller.conversation.chat.id
    frontend.controller.chats.new()
    frontend.open("two")
    frontend.say("hello")
    frontend.controller.chats.open(first)
    assert frontend.controller.model.path == "/there/one.gguf"
    frontend.until(ModelOpened)
    frontend.controller.chats.open(first)  # which is open already
    assert [path for path, _ in frontend.backend.opened] == ["one", "two", "/there/one.gguf"]


def test_a_chat_whose_model_is_gone_goes_on_with_the_one_that_is_open(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    chat = frontend.controller.store.new_chat("old", None, "old", "no-such")
    frontend.controller.chats.open(chat)
    frontend.until(ModelFailed)
    assert frontend.controller.model.path == "fake"
    frontend.controller.chats.import_json(
        to_json(SavedChat(0, "from elsewhere", model="no-such"))
    )  # which names a model of elsewhere
    frontend.say("hello")
    assert frontend.texts == ["hello", "You said: hello"]
    frontend.controller.chats.open(chat)
    frontend.until(ModelFailed)
    frontend.say("and now?")
    assert frontend.controller.store.load(chat).path == "fake"  # what has replied last


def test_of_two_models_asked_for_the_first_does_not_cost_the_one_that_is_open(make_frontend: MakeFrontend) -> None:
    frontend, hold = make_frontend(), Flag()
    frontend.open("one")
    frontend.controller.worker.ask(lambda model: Notice(f"held: {hold.wait(20)}"))  # until then nothing is opened
    frontend.controller.model.open("two")
    frontend.controller.model.open("no-such")
    hold.set()
    frontend.until(ModelFailed)
    assert (frontend.controller.model.name, frontend.backend.model.closed) == ("one", False)
    frontend.say("hello")
    assert frontend.texts == ["hello", "You said: hello"]


def test_a_message_that_waits_for_a_model_is_for_the_one_chosen_in_its_place(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.backend.wait = Flag()
    frontend.controller.model.open("first")
    frontend.controller.sender.send("hello")
    frontend.controller.model.open("second")
    frontend.backend.wait.set()
    frontend.until(ReplyEnded)
    assert frontend.texts == ["hello", "You said: hello"]
    assert frontend.controller.model.name == "second"


def test_a_reply_that_waits_for_the_model_is_stopped_at_once(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.backend.wait = Flag()
    frontend.controller.model.open("fake")
    frontend.controller.sender.send("first")
    with pytest.raises(EdgeLLMError, match="a reply waits for the model: Esc stops it"):
        frontend.controller.sender.send("too early")
    frontend.controller.replies.stop()
    assert frontend.controller.replies.running is None
    assert frontend.controller.conversation.path[-1].finish_reason == "cancelled"
    frontend.controller.chats.open(frontend.controller.conversation.chat.id)  # as it was kept
    assert frontend.controller.replies.running is None
    assert frontend.controller.conversation.path[-1].finish_reason == "cancelled"
    frontend.controller.sender.send("second")
    assert frontend.controller.replies.running is not None
    frontend.backend.wait.set()
    frontend.until(ReplyEnded)
    frontend.until(ReplyEnded)
    assert frontend.texts == ["first", "", "second", "You said: second"]
    assert [message.finish_reason for message in frontend.controller.conversation.path[1::2]] == ["cancelled", "eog"]
    assert frontend.backend.model.asked == [[{"role": "user", "content": "second"}]]
    assert frontend.controller.status.unseen() == {message.id for message in frontend.controller.conversation.path[:2]}


def test_a_reply_that_has_ended_is_not_taken_for_one_that_waits(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.controller.sender.send("hello")
    assert frontend.controller.worker.done().wait(20)  # ended, but the frontend has not heard of it
    frontend.controller.replies.stop()
    assert frontend.controller.conversation.path[-1].finish_reason is None
    frontend.until(ReplyEnded)
    assert (frontend.texts, frontend.controller.conversation.path[-1].finish_reason) == (
        ["hello", "You said: hello"],
        "eog",
    )
    kept = frontend.controller.store.load(frontend.controller.conversation.chat.id).tree.path()
    assert [message.text for message in kept] == frontend.texts


def test_without_a_model_nothing_is_sent(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    for action in (lambda: frontend.controller.sender.send("hello"), frontend.controller.sender.regenerate):
        with pytest.raises(EdgeLLMError, match="no model is open"):
            action()
    assert frontend.controller.chats.list() == []
    frontend.controller.model.open("fake")
    frontend.controller.sender.send("hello")  # waits for it
    frontend.until(ReplyEnded)
    assert frontend.texts == ["hello", "You said: hello"]
    frontend.controller.model.open("missing")
    frontend.until(ModelFailed)
    with pytest.raises(EdgeLLMError, match="no model is open"):
        frontend.controller.sender.edit(frontend.controller.conversation.path[0].id, "hi")
