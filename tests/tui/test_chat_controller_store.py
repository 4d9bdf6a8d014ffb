"""The chat controller with a store that fails."""

from collections.abc import Callable

import pytest

from edgellm.errors import EdgeLLMError
from support.headless_chat import MakeFrontend
from tui.core.events import ModelOpened, Notice


def refusing(call: str) -> Callable[..., None]:
    """A replacement for a method of the store that raises."""

    def refuses(*_: object) -> None:
        raise EdgeLLMError(f"{call}: the disk is full")

    return refuses


@pytest.mark.parametrize("call", ["add_to_history", "show", "set_model", "set", "get", "settings", "update"])
def test_whatever_the_store_refuses_the_chat_goes_on(
    make_frontend: MakeFrontend, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    frontend = make_frontend()
    frontend.open()
    store = frontend.controller.store
    part = store if hasattr(store, call) else store.preferences
    monkeypatch.setattr(part, call, refusing(call))
    frontend.say("hello")
    assert frontend.texts == ["hello", "You said: hello"]
    frontend.controller.on_event(ModelOpened("fake", 4096, True, requested="fake", path="/fake.gguf"))
    frontend.controller.navigation.walk(frontend.controller.conversation.path[0].id, 1)
    frontend.controller.chats.new()
    assert frontend.controller.conversation.draft().text == ""
    while not frontend.events.empty():
        if isinstance(event := frontend.events.get(), Notice):
            frontend.notices.append(event.text)
    assert any(f"{call}: the disk is full" in notice for notice in frontend.notices)
    frontend.say("again")
    assert frontend.texts == ["again", "You said: again"]


@pytest.mark.parametrize("call", ["new_chat", "add"])
def test_what_cannot_be_stored_is_not_half_sent(
    make_frontend: MakeFrontend, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    frontend = make_frontend()
    frontend.open()
    with monkeypatch.context() as broken:
        broken.setattr(frontend.controller.store, call, refusing(call))
        with pytest.raises(EdgeLLMError, match="the disk is full"):
            frontend.controller.sender.send("hello")
        assert frontend.controller.replies.running is None
    frontend.say("hello")
    assert frontend.texts == ["hello", "You said: hello"]
