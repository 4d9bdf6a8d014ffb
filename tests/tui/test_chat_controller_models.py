"""The desk: models, and their settings."""

from pathlib import Path
from threading import Event as Flag

import pytest

from edgellm.errors import EdgeLLMError, OptionError
from support.headless_chat import MakeFrontend
from tui.core.events import ModelFailed, ModelOpened, Notice, ReplyEnded
from tui.core.store import SavedChat
from tui.core.store.export import to_json
from tui.core.worker import Worker


def test_settings_are_kept_for_each_model(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.desk.set("temp", "0.5")
    frontend.desk.set("overflow", "drop")
    frontend.say("hello")
    assert frontend.backend.model.options == [{"temp": 0.5, "overflow": "drop"}]
    frontend.open("other")
    assert frontend.desk.tuning.values == {}
    frontend.open("fake")
    assert frontend.desk.tuning.values == {"temp": 0.5, "overflow": "drop"}
    frontend.desk.set("temp", "")
    assert frontend.desk.tuning.values == {"overflow": "drop"}
    frontend.desk.reset()
    assert make_frontend().desk.store.settings("fake") == {}


def test_a_wrong_value_is_refused_and_changes_nothing(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    for name, value in (("temp", "hot"), ("top_k", "-3"), ("overflow", "maybe"), ("nonsense", "1")):
        with pytest.raises(OptionError):
            frontend.desk.set(name, value)
    assert frontend.desk.tuning.values == {}


def test_a_setting_of_loading_opens_the_model_anew(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.desk.set("ctx", "1024")
    frontend.until(ModelOpened)
    assert frontend.backend.opened == [("fake", {}), ("fake", {"ctx": 1024})]


def test_thinking_is_switched_where_the_template_can(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    with pytest.raises(EdgeLLMError, match="no switch"):
        frontend.desk.switch_thinking()
    frontend.open()
    assert frontend.desk.switch_thinking() is False
    frontend.say("hello")
    assert frontend.backend.model.options == [{"template_args": {"enable_thinking": False}}]
    assert frontend.desk.switch_thinking() is True


def test_a_model_that_fails_is_a_notice(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.desk.open_model("missing")
    frontend.say("hello")
    frontend.until(Notice)
    assert "there is no such model" in frontend.notices[0]
    assert frontend.desk.path[0].text == "hello"


def test_a_slip_of_the_pen_leaves_the_model_open(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open("one")
    frontend.desk.set("temp", "0.5")
    frontend.desk.open_model("no-such")
    frontend.desk.send("hello")  # goes to the model that is open in the end
    frontend.until(ReplyEnded)
    if not frontend.notices:  # which of the two comes first is open
        frontend.until(Notice)
    assert (frontend.texts[-1], frontend.backend.model.closed) == ("You said: hello", False)
    assert (frontend.desk.model, frontend.desk.opened and frontend.desk.opened.name) == ("one", "one")
    assert frontend.desk.tuning.values == {"temp": 0.5}
    assert ["there is no such model" in line for line in frontend.notices] == [True]
    frontend.open("two")
    frontend.desk.open_model("no-such")
    frontend.desk.open_model("three")
    frontend.until(ModelOpened)
    assert frontend.desk.model == "three"


def test_what_is_to_be_set_for_one_model_is_not_set_for_the_one_that_stays_open(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open("one")
    frontend.desk.open_model("base")
    frontend.until(Notice)
    assert frontend.notices[-1].endswith("; one stays open, and what is set here is for that")


def test_why_no_model_is_open_is_known_until_another_is_wanted(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.desk.open_model("missing")
    frontend.until(ModelFailed)
    assert "there is no such model" in (frontend.desk.refused or "")
    frontend.open("two")
    frontend.desk.heard(ModelFailed("missing", "too late"))
    assert frontend.desk.refused is None


def test_a_model_is_not_lost_to_a_setting_that_it_cannot_be_opened_with(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.desk.set("ctx", "512")
    frontend.until(ModelOpened)
    frontend.desk.set("temp", "0.5")
    frontend.desk.set("ctx", "99999")
    frontend.until(ModelFailed)
    assert frontend.desk.tuning.values == {"ctx": 512, "temp": 0.5}
    frontend.say("hello")
    assert frontend.texts == ["hello", "You said: hello"]
    again = make_frontend()
    again.open()
    assert again.backend.opened == [("fake", {"ctx": 512})]


def test_a_model_asked_for_while_another_loads_is_the_one_in_the_end(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open("first")
    frontend.desk.set("ctx", "1024")  # so that settings of the two differ
    frontend.until(ModelOpened)
    frontend.open("second")
    frontend.desk.open_model("first")
    frontend.desk.open_model("second")
    while frontend.desk.opened is None:
        frontend.until(ModelOpened)
    frontend.desk.worker.close()
    frontend.desk.worker = Worker(frontend.backend, frontend.told.put)  # the fixture closes one
    assert frontend.desk.model == frontend.desk.opened.name == "second"
    assert frontend.backend.opened[-1] == ("second", {})
    assert not [event for event in frontend.told.queue if isinstance(event, ModelOpened)]


def test_a_model_by_its_path_is_opened_once_with_the_settings_of_its_name(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.desk.store.save_settings("model", {"ctx": 512, "temp": 0.5})
    frontend.backend.named["/there/model.gguf"] = "model"
    frontend.desk.open_model("/there/model.gguf")
    frontend.desk.send("typed while it loads")
    frontend.until(ReplyEnded)
    assert frontend.backend.opened == [("model", {"ctx": 512})]
    assert (frontend.desk.model, frontend.desk.tuning.values) == ("model", {"ctx": 512, "temp": 0.5})
    assert frontend.texts == ["typed while it loads", "You said: typed while it loads"]


def test_what_is_set_while_a_model_is_opened_by_its_path_is_kept_under_its_name(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.backend.named["/there/model.gguf"] = "model"
    frontend.backend.wait = Flag()
    frontend.desk.store.save_settings("model", {"top_k": 5})
    frontend.desk.open_model("/there/model.gguf")
    frontend.desk.set("temp", "0.5")
    frontend.desk.set("ctx", "512")
    frontend.backend.wait.set()
    frontend.until(ModelOpened)
    assert frontend.desk.tuning.values == {"top_k": 5, "temp": 0.5, "ctx": 512}
    assert frontend.backend.opened[-1] == ("model", {"ctx": 512})
    assert frontend.desk.store.settings("/there/model.gguf") == {"top_k": 5, "temp": 0.5, "ctx": 512}
    assert frontend.desk.store.settings("model") == {}


def test_files_of_the_same_name_have_settings_of_their_own(make_frontend: MakeFrontend) -> None:
    """What version 1 kept under their name is that of the first one that is opened."""
    frontend = make_frontend()
    frontend.desk.store.save_settings("m", {"ctx": 512, "thinking": False})
    frontend.backend.named = {"/one/m.gguf": "m", "/two/m.gguf": "m"}
    frontend.open("/one/m.gguf")
    frontend.desk.set("temp", "0.5")
    assert (frontend.desk.tuning.values, frontend.desk.tuning.thinking) == ({"ctx": 512, "temp": 0.5}, False)
    frontend.open("/two/m.gguf")
    assert (frontend.desk.tuning.values, frontend.desk.tuning.thinking) == ({}, None)
    frontend.desk.set("temp", "0.7")
    frontend.open("/one/m.gguf")
    assert frontend.desk.tuning.values == {"ctx": 512, "temp": 0.5}
    assert [options for _, options in frontend.backend.opened] == [{"ctx": 512}, {}, {"ctx": 512}]


def test_a_path_means_the_same_from_every_folder(
    make_frontend: MakeFrontend, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    frontend = make_frontend()
    monkeypatch.chdir(tmp_path)
    frontend.open("models/m.gguf")
    frontend.desk.set("temp", "0.5")
    frontend.say("hello")
    chat = frontend.desk.chat.id
    assert frontend.desk.store.load(chat).path == f"{tmp_path}/models/m.gguf"
    assert frontend.desk.store.preference("model", "") == f"{tmp_path}/models/m.gguf"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    frontend.desk.new_chat()
    frontend.open("models/m.gguf")
    assert frontend.desk.tuning.values == {}
    frontend.desk.open_chat(chat)
    frontend.until(ModelOpened)
    assert frontend.desk.place == f"{tmp_path}/models/m.gguf"
    assert frontend.desk.tuning.values == {"temp": 0.5}


def test_a_chat_opens_with_its_own_model(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.backend.paths = {"one": "/there/one.gguf", "two": "/there/two.gguf"}
    frontend.open("one")
    frontend.say("hello")
    first = frontend.desk.chat.id
    frontend.desk.new_chat()
    frontend.open("two")
    frontend.say("hello")
    frontend.desk.open_chat(first)
    assert frontend.desk.place == "/there/one.gguf"
    frontend.until(ModelOpened)
    frontend.desk.open_chat(first)  # which is open already
    assert [path for path, _ in frontend.backend.opened] == ["one", "two", "/there/one.gguf"]


def test_a_chat_whose_model_is_gone_goes_on_with_the_one_that_is_open(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    chat = frontend.desk.store.new_chat("old", None, "old", "no-such")
    frontend.desk.open_chat(chat)
    frontend.until(ModelFailed)
    assert frontend.desk.place == "fake"
    frontend.desk.import_chats(
        to_json(SavedChat(0, "from elsewhere", model="no-such"))
    )  # which names a model of elsewhere
    frontend.say("hello")
    assert frontend.texts == ["hello", "You said: hello"]
    frontend.desk.open_chat(chat)
    frontend.until(ModelFailed)
    frontend.say("and now?")
    assert frontend.desk.store.load(chat).path == "fake"  # what has replied last


def test_of_two_models_asked_for_the_first_does_not_cost_the_one_that_is_open(make_frontend: MakeFrontend) -> None:
    frontend, hold = make_frontend(), Flag()
    frontend.open("one")
    frontend.desk.worker.ask(lambda model: Notice(f"held: {hold.wait(20)}"))  # until then nothing is opened
    frontend.desk.open_model("two")
    frontend.desk.open_model("no-such")
    hold.set()
    frontend.until(ModelFailed)
    assert (frontend.desk.model, frontend.backend.model.closed) == ("one", False)
    frontend.say("hello")
    assert frontend.texts == ["hello", "You said: hello"]


def test_a_message_that_waits_for_a_model_is_for_the_one_chosen_in_its_place(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.backend.wait = Flag()
    frontend.desk.open_model("first")
    frontend.desk.send("hello")
    frontend.desk.open_model("second")
    frontend.backend.wait.set()
    frontend.until(ReplyEnded)
    assert frontend.texts == ["hello", "You said: hello"]
    assert frontend.desk.model == "second"


def test_a_reply_that_waits_for_the_model_is_stopped_at_once(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.backend.wait = Flag()
    frontend.desk.open_model("fake")
    frontend.desk.send("first")
    with pytest.raises(EdgeLLMError, match="a reply waits for the model: Esc stops it"):
        frontend.desk.send("too early")
    frontend.desk.stop()
    assert frontend.desk.running is None
    assert frontend.desk.path[-1].finish_reason == "cancelled"
    frontend.desk.open_chat(frontend.desk.chat.id)  # as it was kept
    assert frontend.desk.running is None
    assert frontend.desk.path[-1].finish_reason == "cancelled"
    frontend.desk.send("second")
    assert frontend.desk.running is not None
    frontend.backend.wait.set()
    frontend.until(ReplyEnded)
    frontend.until(ReplyEnded)
    assert frontend.texts == ["first", "", "second", "You said: second"]
    assert [message.finish_reason for message in frontend.desk.path[1::2]] == ["cancelled", "eog"]
    assert frontend.backend.model.asked == [[{"role": "user", "content": "second"}]]
    assert frontend.desk.unseen() == {message.id for message in frontend.desk.path[:2]}


def test_a_reply_that_has_ended_is_not_taken_for_one_that_waits(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    frontend.open()
    frontend.desk.send("hello")
    assert frontend.desk.worker.done().wait(20)  # ended, but the frontend has not heard of it
    frontend.desk.stop()
    assert frontend.desk.path[-1].finish_reason is None
    frontend.until(ReplyEnded)
    assert (frontend.texts, frontend.desk.path[-1].finish_reason) == (["hello", "You said: hello"], "eog")
    kept = frontend.desk.store.load(frontend.desk.chat.id).tree.path()
    assert [message.text for message in kept] == frontend.texts


def test_without_a_model_nothing_is_sent(make_frontend: MakeFrontend) -> None:
    frontend = make_frontend()
    for said in (lambda: frontend.desk.send("hello"), frontend.desk.regenerate):
        with pytest.raises(EdgeLLMError, match="no model is open"):
            said()
    assert frontend.desk.chats() == []
    frontend.desk.open_model("fake")
    frontend.desk.send("hello")  # waits for it
    frontend.until(ReplyEnded)
    assert frontend.texts == ["hello", "You said: hello"]
    frontend.desk.open_model("missing")
    frontend.until(ModelFailed)
    with pytest.raises(EdgeLLMError, match="no model is open"):
        frontend.desk.edit(frontend.desk.path[0].id, "hi")
