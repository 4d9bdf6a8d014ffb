"""The desk where the store refuses what it is asked."""

from collections.abc import Callable

import pytest

from edgellm.errors import EdgeLLMError
from support.desk_front import MakeFront
from tui.core.events import ModelOpened, Notice


def refusing(call: str) -> Callable[..., None]:
    """What stands in for a call of the store, and raises."""

    def refuses(*_: object) -> None:
        raise EdgeLLMError(f"{call}: the disk is full")

    return refuses


@pytest.mark.parametrize(
    "call", ["remember", "show", "set_model", "set_preference", "preference", "settings", "update"]
)
def test_whatever_the_store_refuses_the_chat_goes_on(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    front = make_front()
    front.open()
    monkeypatch.setattr(front.desk.store, call, refusing(call))
    front.say("hello")
    assert front.texts == ["hello", "You said: hello"]
    front.desk.heard(ModelOpened("fake", 4096, True, asked="fake", path="/fake.gguf"))
    front.desk.walk(front.desk.path[0].id, 1)
    front.desk.new_chat()
    assert front.desk.draft().text == ""
    while not front.told.empty():
        if isinstance(event := front.told.get(), Notice):
            front.notices.append(event.text)
    assert any(f"{call}: the disk is full" in notice for notice in front.notices)
    front.say("again")
    assert front.texts == ["again", "You said: again"]


@pytest.mark.parametrize("call", ["new_chat", "add"])
def test_what_cannot_be_stored_is_not_half_sent(
    make_front: MakeFront, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    front = make_front()
    front.open()
    with monkeypatch.context() as broken:
        broken.setattr(front.desk.store, call, refusing(call))
        with pytest.raises(EdgeLLMError, match="the disk is full"):
            front.desk.send("hello")
        assert front.desk.running is None
    front.say("hello")
    assert front.texts == ["hello", "You said: hello"]
