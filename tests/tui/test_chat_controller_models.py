"""The desk: models, and their settings."""

from pathlib import Path
from threading import Event as Flag

import pytest

from edgellm.errors import EdgeLLMError, OptionError
from support.desk_front import MakeFront
from tui.core.events import ModelFailed, ModelOpened, Notice, ReplyEnded
from tui.core.store import Chat
from tui.core.store.export import to_json
from tui.core.worker import Worker


def test_settings_are_kept_for_each_model(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.desk.set("temp", "0.5")
    front.desk.set("overflow", "drop")
    front.say("hello")
    assert front.backend.model.options == [{"temp": 0.5, "overflow": "drop"}]
    front.open("other")
    assert front.desk.tuning.values == {}
    front.open("fake")
    assert front.desk.tuning.values == {"temp": 0.5, "overflow": "drop"}
    front.desk.set("temp", "")
    assert front.desk.tuning.values == {"overflow": "drop"}
    front.desk.reset()
    assert make_front().desk.store.settings("fake") == {}


def test_a_wrong_value_is_refused_and_changes_nothing(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    for name, value in (("temp", "hot"), ("top_k", "-3"), ("overflow", "maybe"), ("nonsense", "1")):
        with pytest.raises(OptionError):
            front.desk.set(name, value)
    assert front.desk.tuning.values == {}


def test_a_setting_of_loading_opens_the_model_anew(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.desk.set("ctx", "1024")
    front.until(ModelOpened)
    assert front.backend.opened == [("fake", {}), ("fake", {"ctx": 1024})]


def test_thinking_is_switched_where_the_template_can(make_front: MakeFront) -> None:
    front = make_front()
    with pytest.raises(EdgeLLMError, match="no switch"):
        front.desk.switch_thinking()
    front.open()
    assert front.desk.switch_thinking() is False
    front.say("hello")
    assert front.backend.model.options == [{"template_args": {"enable_thinking": False}}]
    assert front.desk.switch_thinking() is True


def test_a_model_that_fails_is_a_notice(make_front: MakeFront) -> None:
    front = make_front()
    front.desk.open_model("missing")
    front.say("hello")
    front.until(Notice)
    assert "there is no such model" in front.notices[0]
    assert front.desk.path[0].text == "hello"


def test_a_slip_of_the_pen_leaves_the_model_open(make_front: MakeFront) -> None:
    front = make_front()
    front.open("one")
    front.desk.set("temp", "0.5")
    front.desk.open_model("no-such")
    front.desk.send("hello")  # goes to the model that is open in the end
    front.until(ReplyEnded)
    if not front.notices:  # which of the two comes first is open
        front.until(Notice)
    assert (front.texts[-1], front.backend.model.closed) == ("You said: hello", False)
    assert (front.desk.model, front.desk.opened and front.desk.opened.name) == ("one", "one")
    assert front.desk.tuning.values == {"temp": 0.5}
    assert ["there is no such model" in line for line in front.notices] == [True]
    front.open("two")
    front.desk.open_model("no-such")
    front.desk.open_model("three")
    front.until(ModelOpened)
    assert front.desk.model == "three"


def test_what_is_to_be_set_for_one_model_is_not_set_for_the_one_that_stays_open(make_front: MakeFront) -> None:
    front = make_front()
    front.open("one")
    front.desk.open_model("base")
    front.until(Notice)
    assert front.notices[-1].endswith("; one stays open, and what is set here is for that")


def test_why_no_model_is_open_is_known_until_another_is_wanted(make_front: MakeFront) -> None:
    front = make_front()
    front.desk.open_model("missing")
    front.until(ModelFailed)
    assert "there is no such model" in (front.desk.refused or "")
    front.open("two")
    front.desk.heard(ModelFailed("missing", "too late"))
    assert front.desk.refused is None


def test_a_model_is_not_lost_to_a_setting_that_it_cannot_be_opened_with(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.desk.set("ctx", "512")
    front.until(ModelOpened)
    front.desk.set("temp", "0.5")
    front.desk.set("ctx", "99999")
    front.until(ModelFailed)
    assert front.desk.tuning.values == {"ctx": 512, "temp": 0.5}
    front.say("hello")
    assert front.texts == ["hello", "You said: hello"]
    again = make_front()
    again.open()
    assert again.backend.opened == [("fake", {"ctx": 512})]


def test_a_model_asked_for_while_another_loads_is_the_one_in_the_end(make_front: MakeFront) -> None:
    front = make_front()
    front.open("first")
    front.desk.set("ctx", "1024")  # so that settings of the two differ
    front.until(ModelOpened)
    front.open("second")
    front.desk.open_model("first")
    front.desk.open_model("second")
    while front.desk.opened is None:
        front.until(ModelOpened)
    front.desk.worker.close()
    front.desk.worker = Worker(front.backend, front.told.put)  # the fixture closes one
    assert front.desk.model == front.desk.opened.name == "second"
    assert front.backend.opened[-1] == ("second", {})
    assert not [event for event in front.told.queue if isinstance(event, ModelOpened)]


def test_a_model_by_its_path_is_opened_once_with_the_settings_of_its_name(make_front: MakeFront) -> None:
    front = make_front()
    front.desk.store.save_settings("model", {"ctx": 512, "temp": 0.5})
    front.backend.named["/there/model.gguf"] = "model"
    front.desk.open_model("/there/model.gguf")
    front.desk.send("typed while it loads")
    front.until(ReplyEnded)
    assert front.backend.opened == [("model", {"ctx": 512})]
    assert (front.desk.model, front.desk.tuning.values) == ("model", {"ctx": 512, "temp": 0.5})
    assert front.texts == ["typed while it loads", "You said: typed while it loads"]


def test_what_is_set_while_a_model_is_opened_by_its_path_is_kept_under_its_name(make_front: MakeFront) -> None:
    front = make_front()
    front.backend.named["/there/model.gguf"] = "model"
    front.backend.wait = Flag()
    front.desk.store.save_settings("model", {"top_k": 5})
    front.desk.open_model("/there/model.gguf")
    front.desk.set("temp", "0.5")
    front.desk.set("ctx", "512")
    front.backend.wait.set()
    front.until(ModelOpened)
    assert front.desk.tuning.values == {"top_k": 5, "temp": 0.5, "ctx": 512}
    assert front.backend.opened[-1] == ("model", {"ctx": 512})
    assert front.desk.store.settings("/there/model.gguf") == {"top_k": 5, "temp": 0.5, "ctx": 512}
    assert front.desk.store.settings("model") == {}


def test_files_of_the_same_name_have_settings_of_their_own(make_front: MakeFront) -> None:
    """What version 1 kept under their name is that of the first one that is opened."""
    front = make_front()
    front.desk.store.save_settings("m", {"ctx": 512, "thinking": False})
    front.backend.named = {"/one/m.gguf": "m", "/two/m.gguf": "m"}
    front.open("/one/m.gguf")
    front.desk.set("temp", "0.5")
    assert (front.desk.tuning.values, front.desk.tuning.thinking) == ({"ctx": 512, "temp": 0.5}, False)
    front.open("/two/m.gguf")
    assert (front.desk.tuning.values, front.desk.tuning.thinking) == ({}, None)
    front.desk.set("temp", "0.7")
    front.open("/one/m.gguf")
    assert front.desk.tuning.values == {"ctx": 512, "temp": 0.5}
    assert [options for _, options in front.backend.opened] == [{"ctx": 512}, {}, {"ctx": 512}]


def test_a_path_means_the_same_from_every_folder(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    front = make_front()
    monkeypatch.chdir(tmp_path)
    front.open("models/m.gguf")
    front.desk.set("temp", "0.5")
    front.say("hello")
    chat = front.desk.chat.id
    assert front.desk.store.load(chat).path == f"{tmp_path}/models/m.gguf"
    assert front.desk.store.preference("model", "") == f"{tmp_path}/models/m.gguf"
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    front.desk.new_chat()
    front.open("models/m.gguf")
    assert front.desk.tuning.values == {}
    front.desk.open_chat(chat)
    front.until(ModelOpened)
    assert front.desk.place == f"{tmp_path}/models/m.gguf"
    assert front.desk.tuning.values == {"temp": 0.5}


def test_a_chat_opens_with_its_own_model(make_front: MakeFront) -> None:
    front = make_front()
    front.backend.paths = {"one": "/there/one.gguf", "two": "/there/two.gguf"}
    front.open("one")
    front.say("hello")
    first = front.desk.chat.id
    front.desk.new_chat()
    front.open("two")
    front.say("hello")
    front.desk.open_chat(first)
    assert front.desk.place == "/there/one.gguf"
    front.until(ModelOpened)
    front.desk.open_chat(first)  # which is open already
    assert [path for path, _ in front.backend.opened] == ["one", "two", "/there/one.gguf"]


def test_a_chat_whose_model_is_gone_goes_on_with_the_one_that_is_open(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    chat = front.desk.store.new_chat("old", None, "old", "no-such")
    front.desk.open_chat(chat)
    front.until(ModelFailed)
    assert front.desk.place == "fake"
    front.desk.import_chats(to_json(Chat(0, "from elsewhere", model="no-such")))  # which names a model of elsewhere
    front.say("hello")
    assert front.texts == ["hello", "You said: hello"]
    front.desk.open_chat(chat)
    front.until(ModelFailed)
    front.say("and now?")
    assert front.desk.store.load(chat).path == "fake"  # what has replied last


def test_of_two_models_asked_for_the_first_does_not_cost_the_one_that_is_open(make_front: MakeFront) -> None:
    front, hold = make_front(), Flag()
    front.open("one")
    front.desk.worker.ask(lambda model: Notice(f"held: {hold.wait(20)}"))  # until then nothing is opened
    front.desk.open_model("two")
    front.desk.open_model("no-such")
    hold.set()
    front.until(ModelFailed)
    assert (front.desk.model, front.backend.model.closed) == ("one", False)
    front.say("hello")
    assert front.texts == ["hello", "You said: hello"]


def test_a_message_that_waits_for_a_model_is_for_the_one_chosen_in_its_place(make_front: MakeFront) -> None:
    front = make_front()
    front.backend.wait = Flag()
    front.desk.open_model("first")
    front.desk.send("hello")
    front.desk.open_model("second")
    front.backend.wait.set()
    front.until(ReplyEnded)
    assert front.texts == ["hello", "You said: hello"]
    assert front.desk.model == "second"


def test_a_reply_that_waits_for_the_model_is_stopped_at_once(make_front: MakeFront) -> None:
    front = make_front()
    front.backend.wait = Flag()
    front.desk.open_model("fake")
    front.desk.send("first")
    with pytest.raises(EdgeLLMError, match="a reply waits for the model: Esc stops it"):
        front.desk.send("too early")
    front.desk.stop()
    assert front.desk.running is None
    assert front.desk.path[-1].finish_reason == "cancelled"
    front.desk.open_chat(front.desk.chat.id)  # as it was kept
    assert front.desk.running is None
    assert front.desk.path[-1].finish_reason == "cancelled"
    front.desk.send("second")
    assert front.desk.running is not None
    front.backend.wait.set()
    front.until(ReplyEnded)
    front.until(ReplyEnded)
    assert front.texts == ["first", "", "second", "You said: second"]
    assert [message.finish_reason for message in front.desk.path[1::2]] == ["cancelled", "eog"]
    assert front.backend.model.asked == [[{"role": "user", "content": "second"}]]
    assert front.desk.unseen() == {message.id for message in front.desk.path[:2]}


def test_a_reply_that_has_ended_is_not_taken_for_one_that_waits(make_front: MakeFront) -> None:
    front = make_front()
    front.open()
    front.desk.send("hello")
    assert front.desk.worker.done().wait(20)  # ended, but the front has not heard of it
    front.desk.stop()
    assert front.desk.path[-1].finish_reason is None
    front.until(ReplyEnded)
    assert (front.texts, front.desk.path[-1].finish_reason) == (["hello", "You said: hello"], "eog")
    kept = front.desk.store.load(front.desk.chat.id).tree.path()
    assert [message.text for message in kept] == front.texts


def test_without_a_model_nothing_is_sent(make_front: MakeFront) -> None:
    front = make_front()
    for said in (lambda: front.desk.send("hello"), front.desk.regenerate):
        with pytest.raises(EdgeLLMError, match="no model is open"):
            said()
    assert front.desk.chats() == []
    front.desk.open_model("fake")
    front.desk.send("hello")  # waits for it
    front.until(ReplyEnded)
    assert front.texts == ["hello", "You said: hello"]
    front.desk.open_model("missing")
    front.until(ModelFailed)
    with pytest.raises(EdgeLLMError, match="no model is open"):
        front.desk.edit(front.desk.path[0].id, "hi")
