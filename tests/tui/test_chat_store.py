"""The store of the chat: saving and loading, search, versions, drafts, deletion."""

from collections.abc import Iterator
from dataclasses import fields, replace
from pathlib import Path

import pytest

from edgellm import EdgeLLMError
from edgellm.generate.stats import Stats
from edgellm.system.folders import chats_file
from tui.core.store import Store, search, store, validation
from tui.core.tree import Message

STATS = {"prompt_tokens": 12, "cached_tokens": 4, "generated_tokens": 3, "ttft_s": 0.25, "prefill_tps": 48.0}
STATS |= {"decode_tps": None, "itl_ms": {"p50": 10.0, "p95": 12.5}, "mbu": 0.5}
GUIDED = {"tokens": 3, "mean": 0.25, "worst": 0.5, "worst_at": 1}
FIGURES = {**STATS, "devices": [{"name": "CPU", "blocks": 5, "bytes": 1000}], "guided": GUIDED}
FIGURES |= {"estimated": True, "drafted": 4, "accepted": 1, "tokens_per_step": 2.0}
FIGURES["drafts"] = {"lookup": {"drafted": 4, "accepted": 1, "seconds": 0.0}}


@pytest.fixture
def chats(tmp_path: Path) -> Iterator[Store]:
    with_file = Store(tmp_path / "chats.db")
    yield with_file
    with_file.close()


@pytest.fixture(params=["index", "messages"])
def both(request: pytest.FixtureRequest, chats: Store, monkeypatch: pytest.MonkeyPatch) -> Store:
    """A store with the search index, and one whose SQLite has no FTS5."""
    if request.param == "messages":
        monkeypatch.setattr(search, "has_index", lambda _: False)
    return chats


def again(chats: Store) -> Store:
    """The same file, opened again."""
    chats.close()
    return Store(chats.path)


def titles(chats: Store, wanted: str = "") -> list[str]:
    return [chat.title for chat in chats.chats(wanted)]


def store_chat(chats: Store, title: str, *texts: str) -> int:
    """A stored chat with these messages, one after the other."""
    chat, parent = chats.new_chat(title, None, None), None
    for text in texts:
        parent = chats.add(chat, parent, "user", text).id
    return chat


def test_what_was_saved_is_there_again(chats: Store) -> None:
    chat = chats.new_chat("Sorting", "Be brief.", "qwen")
    question = chats.add(chat, None, "user", "How?\r\nIn O(n)?\0 \U0001f600")
    reply = chats.add(chat, question.id, "assistant", "", "qwen")
    assert (reply.text, reply.finish_reason, reply.parent) == ("", None, question.id)
    chats.update(replace(reply, text="Count"))
    whole = replace(reply, text="Count them.", finish_reason="eog", stats=FIGURES, dropped_tokens=7, dropped_messages=2)
    chats.update(whole)
    chats.show(chat, reply.id)
    chats.set_draft(chat, "and th")
    with_file = again(chats)
    loaded = with_file.load(chat)
    assert loaded.tree.path() == [question, whole]
    assert (loaded.id, loaded.title, loaded.system, loaded.model) == (chat, "Sorting", "Be brief.", "qwen")
    assert loaded.draft == "and th"
    with_file.close()


def test_every_version_and_the_one_shown_are_stored(chats: Store) -> None:
    chat = chats.new_chat("", None, None)
    first = chats.add(chat, None, "user", "a")
    second = chats.add(chat, None, "user", "b")
    replies = [chats.add(chat, first.id, "assistant", text) for text in "xyz"]
    chats.show(chat, replies[1].id)
    tree = chats.load(chat).tree
    assert tree.versions(first.id) == [first.id, second.id]
    assert tree.versions(replies[0].id) == [reply.id for reply in replies]
    assert [message.text for message in tree.path()] == ["a", "y"]


def test_a_chat_whose_first_message_was_never_shown_opens_at_it(chats: Store) -> None:
    chat = store_chat(chats, "", "a", "b")
    assert [message.text for message in chats.load(chat).tree.path()] == ["a", "b"]
    assert chats.load(chats.new_chat("", None, None)).tree.path() == []


def test_the_chat_used_last_comes_first(chats: Store) -> None:
    first, second = store_chat(chats, "first", "a"), store_chat(chats, "second", "b", "c")
    assert titles(chats) == ["second", "first"]
    chats.add(first, None, "user", "again")
    chats.set_draft(second, "typing is no use of it")
    assert titles(chats) == ["first", "second"]
    assert [chat.messages for chat in chats.chats()] == [2, 2]


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        ("sort", {"Python tips"}),
        ("SORTED", {"Python tips"}),
        ("python SORT", {"Python tips"}),
        ("first second", {"Python tips"}),
        ("sort apfelmus", set()),
        ("a", {"Obst", "Python tips", "中文"}),
        ("100%", {"Obst"}),
        ("c++", {"Python tips"}),
        ("don't", {"Obst"}),
        ("模型", {"中文"}),
        ("Qwen模", {"中文"}),
        ("qwen", {"中文"}),
        ('"', set()),
        ("sort NEAR", set()),
        ("text:sort", set()),
        ("\\", set()),
        ("sor\0t", set()),
        ("_", set()),
    ],
)
def test_search(both: Store, wanted: str, found: set[str]) -> None:
    store_chat(both, "Python tips", "The first: sorted() and not C++", "The second is about it: a")
    store_chat(both, "Obst", "Zum Beispiel Äpfel, die ich mag: 100% oder mehr; don't ask", "a pear")
    store_chat(both, "中文", "我使用Qwen模型。", "a word")
    assert set(titles(both, wanted)) == found


def test_the_index_knows_upper_case_of_all_letters(chats: Store) -> None:
    store_chat(chats, "Früchte", "Äpfel, яблоки")
    for wanted in ("äPFEL", "ЯБЛОК", "FRÜCHTE äpf"):
        assert titles(chats, wanted) == ["Früchte"]


def test_a_reply_is_found_as_it_is_now(both: Store) -> None:
    chat = store_chat(both, "chat", "question")
    reply = both.add(chat, None, "assistant", "")
    both.update(replace(reply, text="first an elephant"))
    assert titles(both, "elephant") == ["chat"]
    both.update(replace(reply, text="first a giraffe", finish_reason="eog"))
    assert titles(both, "elephant") == []
    assert titles(both, "giraffe") == ["chat"]


def test_what_was_written_without_the_index_is_found_with_it(chats: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(search, "has_index", lambda _: False)
        store_chat(chats, "chat", "elephant")
    assert titles(chats, "eleph") == ["chat"]


def test_a_snippet_shows_the_hit(both: Store) -> None:
    store_chat(both, "long", "word " * 100 + "the elephant\nin the room " + "word " * 100)
    store_chat(both, "the elephant's title", "nothing")
    by_title = {chat.title: chat.snippet for chat in both.chats("elephant")}
    assert by_title["long"].startswith("…") and by_title["long"].endswith("…")
    assert "word the elephant in the room word" in by_title["long"]
    assert by_title["the elephant's title"] == ""


def test_a_snippet_shows_the_message_with_all_words(both: Store) -> None:
    store_chat(both, "counted", *(f"What is MBU? {i}, and so on" for i in range(100)))
    for wanted in ("mbu? 77", "77 mbu?", "mbu 77"):
        (chat,) = both.chats(wanted)
        assert chat.snippet.endswith("MBU? 77, and so on")


def test_delete_and_undo(chats: Store) -> None:
    old = store_chat(chats, "old", "elephant")
    store_chat(chats, "new", "elephant")
    chats.delete(old)
    assert titles(chats) == titles(chats, "elephant") == ["new"]
    chats.undelete(old)
    assert titles(chats) == titles(chats, "elephant") == ["new", "old"]
    assert chats.load(old).tree.path()[0].text == "elephant"


def test_deleted_chats_are_gone_after_30_days(chats: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    now = store.time()
    monkeypatch.setattr(store, "time", lambda: now)
    early, late, kept = (store_chat(chats, title, "elephant") for title in ("early", "late", "kept"))
    chats.delete(early)
    now += 86400
    chats.delete(late)
    now += 29.5 * 86400
    chats = again(chats)
    with pytest.raises(EdgeLLMError, match="no such chat"):
        chats.undelete(early)
    chats.undelete(late)
    assert set(titles(chats, "elephant")) == {"late", "kept"}
    chats.delete(kept)
    chats.purge()
    with pytest.raises(EdgeLLMError, match="no such chat"):
        chats.load(kept)
    assert titles(chats, "elephant") == ["late"]
    with chats._database.read() as run:
        assert run("SELECT text FROM words").fetchall() == [("elephant",)]
    chats.close()


def test_what_is_written_to_a_deleted_chat_brings_it_back(chats: Store) -> None:
    """Another window deleted the chat while this one had a draft in it."""
    chat = store_chat(chats, "chat", "a")
    chats.delete(chat)
    chats.add(chat, None, "user", "b")
    assert titles(chats) == ["chat"]


def test_nothing_can_be_written_to_what_is_gone(chats: Store) -> None:
    chat, other = store_chat(chats, "chat", "a"), store_chat(chats, "other", "b")
    message = next(iter(chats.load(chat).tree.messages.values()))
    with pytest.raises(EdgeLLMError, match="no longer there"):
        chats.add(other, message.id, "user", "an answer in another chat")
    chats.delete(chat)
    chats.purge()
    for change in (
        lambda: chats.add(chat, None, "user", "x"),
        lambda: chats.update(message),
        lambda: chats.rename(chat, "x"),
        lambda: chats.load(chat),
    ):
        with pytest.raises(EdgeLLMError, match=r"no longer there|no such chat"):
            change()
    assert store_chat(chats, "new", "c") not in (chat, other)
    assert next(iter(chats.load(store_chat(chats, "new", "d")).tree.messages)) > message.id


def test_fork(chats: Store) -> None:
    chat = store_chat(chats, "chat", "a", "b", "c")
    a, b, c = chats.load(chat).tree.path()
    other = chats.add(chat, a.id, "assistant", "other version", "qwen")
    chats.set_system(chat, "Be brief.")
    chats.set_draft(chat, "draft")
    forked = chats.load(chats.put(chats.load(chat).up_to(b.id)))
    chats.update(replace(b, text="changed since"))
    assert [message.text for message in forked.tree.messages.values()] == ["a", "b"]
    assert forked.tree.leaf not in (a.id, b.id, c.id, other.id)
    assert (forked.title, forked.system, forked.draft) == ("chat (fork)", "Be brief.", "")
    assert [message.text for message in chats.load(chat).tree.messages.values()] == [
        "a",
        "changed since",
        "c",
        other.text,
    ]


def test_settings_and_preferences(chats: Store) -> None:
    assert chats.preferences.settings("qwen") == {}
    chats.preferences.save_settings("qwen", {"temp": 0.5, "ctx": None, "stop": ["\n"]})
    chats.preferences.save_settings("qwen", {"temp": 0.7, "stop": ["\n", "\ud800"]})
    chats.preferences.change_settings("qwen", {"temp": None, "top_k": 40})
    chats.preferences.change_settings("other", {"seed": 3})
    chats.preferences.set("theme", "nord")
    chats.preferences.set("panel", False)
    chats = again(chats)
    assert chats.preferences.settings("qwen") == {"stop": ["\n", "\ud800"], "top_k": 40}
    assert chats.preferences.settings("other") == {"seed": 3}
    assert chats.preferences.settings("llama") == {}
    assert (chats.preferences.get("theme", "x"), chats.preferences.get("panel", True)) == ("nord", False)
    assert chats.preferences.get("other", 3) == 3
    chats.close()


def test_history(chats: Store) -> None:
    for text in ("a", "b", " \n", "a", "c"):
        chats.preferences.add_to_history(text)
    assert chats.preferences.history() == ["b", "a", "c"]
    assert chats.preferences.history(2) == ["a", "c"]


def test_half_a_surrogate_pair_loses_nothing_else(chats: Store) -> None:
    chat = store_chat(chats, "a\ud800b", "c\udfffd")
    loaded = chats.load(chat)
    assert (loaded.title, loaded.tree.path()[0].text) == ("a?b", "c?d")


def test_figures_that_are_none_do_not_keep_a_chat_from_opening(chats: Store) -> None:
    chat = store_chat(chats, "chat", "a")
    message = chats.load(chat).tree.path()[0]
    chats.update(replace(message, stats={"ttft_s": float("nan"), "generated_tokens": 3}))
    assert chats.load(chat).tree.path() == [message]


def test_all_figures_of_a_reply_and_all_fields_of_a_message_are_known() -> None:
    """A new field needs a check, and a new field of a message needs a column."""
    assert set(
        validation.STATS({field.name: None for field in fields(Stats) if "tokens" not in field.name} | FIGURES)
    ) == {field.name for field in fields(Stats)}
    values = {**{field.name: None for field in fields(Message)}, "id": 1, "role": "user", "text": "", "created": 0.0}
    assert validation.message({**values, "dropped_tokens": 0, "dropped_messages": 0}) == Message(
        1, None, "user", "", 0.0
    )


def test_the_place(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("EDGELLM_HOME", str(tmp_path))
    assert chats_file() == tmp_path / "chats.db"
    monkeypatch.delenv("EDGELLM_HOME")
    assert chats_file().name == "chats.db" and "edgellm" in chats_file().parts
