"""The database file: killed and parallel programs, other versions, damage, a full disk."""

import random
import shutil
import signal
import sqlite3
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import pytest

from edgellm import EdgeLLMError
from support import with_support
from tui.core.store import Store, database, schema
from tui.core.store.export import to_json, to_markdown
from tui.core.tree import Message


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def sqlite(path: Path, *statements: str) -> list[tuple[object, ...]]:
    """Run statements as another program would. Returns the rows of the last one."""
    with sqlite3.connect(path) as db:
        found = [db.execute(statement).fetchall() for statement in statements][-1]
    db.close()
    return found


def writers(path: Path, count: int, *arguments: object) -> list["subprocess.Popen[str]"]:
    """Programs that write at the same time, started together once all are loaded."""
    command = [sys.executable, "-m", "support.chat_writer", str(path), *map(str, arguments)]
    pipe = subprocess.PIPE
    started = [subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, env=with_support()) for _ in range(count)]
    for process in started:
        assert process.stdout and process.stdout.readline() == "ready\n"
    for process in started:
        assert process.stdin
        process.stdin.close()
    return started


def refused(path: Path) -> str:
    """The error of opening the file, which stays unchanged."""
    before = path.read_bytes() if path.is_file() else None
    with pytest.raises(EdgeLLMError) as error:
        Store(path)
    assert "\n" not in str(error.value) and str(path) in str(error.value)
    assert before is None or path.read_bytes() == before
    return str(error.value)


def test_killed_at_any_moment_nothing_that_was_saved_is_lost(path: Path) -> None:
    """50 programs, 5 at a time, with the same file, which the first ones create."""
    random.seed(7)
    for _ in range(10):
        running = writers(path, 5)
        for process in running:
            time.sleep(random.uniform(0, 0.03))
            process.kill()
        saved = [line for process in running if process.stdout for line in whole_lines(process.stdout.read())]
        for process in running:
            assert process.stdout and process.wait() == -signal.SIGKILL
            process.stdout.close()
        assert sqlite(path, "PRAGMA foreign_key_check") == []
        assert sqlite(path, "PRAGMA integrity_check") == [("ok",)]
        store = Store(path)
        loaded = [store.load(chat.id) for chat in store.chats()]
        texts = {message.id: message.text for chat in loaded for message in chat.tree.messages.values()}
        store.close()
        for message, count in saved:
            assert len(texts[message].split()) >= count
    assert sum(len(text) > 0 for text in texts.values()) > 10


def whole_lines(output: str) -> list[tuple[int, int]]:
    """The complete lines that the program printed before it was killed."""
    lines = [line.split() for line in output.split("\n")[:-1]]
    return [(int(message), int(count)) for message, count in lines]


def test_programs_that_write_to_one_chat_lose_nothing(path: Path) -> None:
    store = Store(path)
    chat = store.new_chat("shared", None, None)
    running = writers(path, 2, chat, 10)
    own = [store.add(chat, None, "user", f"mine {number}") for number in range(20)]
    while any(process.poll() is None for process in running):
        tree = store.load(chat).tree
        assert {message.id for message in own} <= set(tree.messages)
    for process in running:
        assert process.stdout and process.wait() == 0
        process.stdout.close()
    replies = [m for m in store.load(chat).tree.messages.values() if m.role == "assistant"]
    assert [message.text for message in replies] == ["word " * 29] * 20
    assert sqlite(path, "PRAGMA integrity_check") == [("ok",)]
    store.close()


def test_a_thread_may_save_a_reply_while_another_reads(path: Path) -> None:
    store = Store(path)
    chat = store.new_chat("", None, None)
    reply = store.add(chat, None, "assistant", "")

    def grow() -> None:
        for count in range(1, 201):
            store.update(replace(reply, text="word " * count))

    thread = threading.Thread(target=grow)
    thread.start()
    lengths = [len(store.load(chat).tree.path()[0].text)]
    while thread.is_alive():
        store.set_draft(chat, "typing")
        lengths.append(len(store.load(chat).tree.path()[0].text))
    thread.join()
    assert lengths == sorted(lengths)
    assert store.load(chat).tree.path()[0].text == "word " * 200
    store.close()


def test_the_file_is_the_users_alone(tmp_path: Path) -> None:
    path = tmp_path / "data" / "chats.db"
    store = Store(path)
    store.new_chat("private", None, None)
    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}
    assert modes == {"chats.db": 0o600, "chats.db-wal": 0o600, "chats.db-shm": 0o600}
    assert path.parent.stat().st_mode & 0o777 == 0o700
    store.close()


def test_a_step_to_the_next_version_keeps_what_is_there(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(path)
    chat = store.new_chat("old", None, None)
    store.close()
    step = "ALTER TABLE chats ADD COLUMN pinned INTEGER NOT NULL DEFAULT 0; UPDATE chats SET pinned = 7"
    monkeypatch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, step))
    store = Store(path)
    assert store.load(chat).title == "old"
    store.close()
    assert sqlite(path, "SELECT pinned FROM chats") == [(7,)]
    assert sqlite(path, "PRAGMA user_version") == [(4,)]


def test_chats_and_settings_of_version_1_are_kept(path: Path) -> None:
    """The file as version 1 created it; it stored the name of a model, or the path of a model without a name."""
    models = ("qwen3", "/there/m.gguf", "C:\\there\\m.gguf", "builtin", None)
    with sqlite3.connect(path) as db:
        for statement in schema.MIGRATIONS[0].split(";"):
            db.execute(statement)
        db.execute("PRAGMA user_version = 1")
        for model in models:
            db.execute("INSERT INTO chats (title, model, draft, updated) VALUES ('a', ?, 'half', 5)", [model])
        db.execute("INSERT INTO messages VALUES (7, 1, NULL, 'user', 'hello', 5, NULL, NULL, NULL, 0, 0)")
        db.execute("INSERT INTO settings VALUES ('qwen3', '{\"temp\": 0.5}')")
        db.execute("INSERT INTO preferences VALUES ('model', '\"qwen3\"')")
        db.execute("INSERT INTO preferences VALUES ('draft', '\"a thought\"')")
    db.close()
    before = {table: sqlite(path, f"SELECT * FROM {table}") for table in ("settings", "preferences")}
    store = Store(path)
    chats = [store.load(chat.id) for chat in reversed(store.chats())]
    assert [chat.model for chat in chats] == list(models)
    assert [chat.path for chat in chats] == [None, "/there/m.gguf", "C:\\there\\m.gguf", "builtin", None]
    assert {(chat.title, chat.draft, chat.files) for chat in chats} == {("a", "half", ())}
    assert chats[0].tree.path() == [Message(7, None, "user", "hello", 5.0)]
    store.close()
    assert {table: sqlite(path, f"SELECT * FROM {table}") for table in before} == before


def test_a_step_that_fails_changes_nothing(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(path)
    chat = store.new_chat("old", None, None)
    store.close()
    with monkeypatch.context() as patch:
        patch.setattr(schema, "MIGRATIONS", (*schema.MIGRATIONS, "DROP TABLE history; INSERT INTO nowhere VALUES (1)"))
        with pytest.raises(EdgeLLMError, match="nowhere"):
            Store(path)
    store = Store(path)
    assert store.load(chat).title == "old"
    assert store.preferences.history() == []
    store.close()


def test_a_newer_version_is_refused(path: Path) -> None:
    Store(path).close()
    sqlite(path, "PRAGMA user_version = 99")
    assert "has version 99, and this edgellm knows 3; update edgellm" in refused(path)


def test_the_database_of_another_program_is_refused(path: Path) -> None:
    sqlite(path, "CREATE TABLE chats (id)")
    assert "another program" in refused(path)


@pytest.mark.parametrize(
    "content", [b"not a database, but longer than its header" * 100, b"SQLite format 3\0" + b"x" * 5000]
)
def test_what_is_no_database_is_left_alone(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    assert "move it away" in refused(path)


def test_a_damaged_file_is_reported_whenever_it_shows(path: Path) -> None:
    store = Store(path)
    parent = None
    chat = store.new_chat("chat", None, None)
    for _ in range(100):
        parent = store.add(chat, parent, "user", "text " * 100).id
    store.close()
    whole = path.read_bytes()
    generator = random.Random(3)
    errors = 0
    for _ in range(30):
        damaged = bytearray(whole)
        start = generator.randrange(100, len(whole))
        damaged[start : start + 4096] = generator.randbytes(len(damaged[start : start + 4096]))
        path.write_bytes(damaged)
        try:
            store = Store(path)
            try:
                store.load(chat)
                store.chats("text")
            finally:
                store.close()
        except EdgeLLMError as error:
            errors += 1
            assert "\n" not in str(error) and str(path) in str(error)
    assert errors > 5


def test_a_conversation_that_another_program_broke_is_reported(path: Path) -> None:
    store = Store(path)
    chat = store.new_chat("chat", None, None)
    store.add(chat, None, "user", "text")
    sqlite(path, "UPDATE messages SET role = 'root'")
    with pytest.raises(EdgeLLMError, match="1: role must be one of"):
        store.load(chat)
    store.close()


COLUMNS = {
    "chats": ("title", "system", "model", "leaf", "draft", "updated", "deleted", "path", "files"),
    "messages": (
        "parent",
        "role",
        "text",
        "created",
        "model",
        "finish_reason",
        "stats",
        "dropped_tokens",
        "dropped_messages",
        "tool_calls",
        "name",
        "tool_call_id",
    ),
    "settings": ("model", "value"),
    "preferences": ("name", "value"),
    "history": ("text",),
    "words": ("text",),
}


@pytest.mark.parametrize("value", ["x'ff00'", "'text'", "-1", "1e999", "'[1]'"])
def test_whatever_another_program_wrote_is_read_or_reported(path: Path, value: str) -> None:
    store = Store(path)
    chat = store.new_chat("chat", None, None)
    first = store.add(chat, None, "user", "elephant")
    store.update(replace(store.add(chat, first.id, "assistant", ""), text="word"))
    store.preferences.add_to_history("text")
    store.preferences.save_settings("qwen", {"temp": 1})
    store.preferences.set("theme", "nord")
    store.close()
    whole = path.read_bytes()
    for table, column in [(table, column) for table, columns in COLUMNS.items() for column in columns]:
        path.write_bytes(whole)
        sqlite(path, "PRAGMA ignore_check_constraints = ON", f"UPDATE {table} SET {column} = {value}")
        with closing(Store(path)) as store:
            for look in LOOKS:
                with suppress(EdgeLLMError):
                    look(store, chat)


LOOKS: tuple[Callable[[Store, int], object], ...] = (
    lambda store, _: [print(chat.title.upper(), chat.model or "", f"{chat.updated:.0f}") for chat in store.chats()],
    lambda store, _: [print(chat.title.upper(), chat.snippet) for chat in store.chats("elephant")],
    lambda store, chat: to_markdown(store.load(chat)) + to_json(store.load(chat)) + store.load(chat).draft,
    lambda store, _: [print(text.upper()) for text in store.preferences.history()],
    lambda store, _: [store.preferences.settings("qwen").get("temp"), store.preferences.get("theme", "")],
    lambda store, chat: store.add(chat, None, "user", "more"),
)


def test_no_place_for_the_file(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    assert "EDGELLM_HOME" in refused(tmp_path / "file" / "chats.db")
    (tmp_path / "folder.db").mkdir()
    assert "EDGELLM_HOME" in refused(tmp_path / "folder.db")


@pytest.mark.parametrize(
    ("pragma", "expected"), [("max_page_count = 1", "disk is full"), ("query_only = ON", "cannot be written")]
)
def test_nothing_is_half_saved_where_it_cannot_be(path: Path, pragma: str, expected: str) -> None:
    store = Store(path)
    chat = store.new_chat("chat", None, None)
    first = store.add(chat, None, "user", "first")
    store._database._db.execute(f"PRAGMA {pragma}")
    changes: list[Callable[[], object]] = [
        lambda: store.add(chat, None, "user", "long " * 10_000),
        lambda: store.update(replace(first, text="long " * 10_000)),
        lambda: store.preferences.set("name", "long " * 10_000),
    ]
    for change in changes:
        with pytest.raises(EdgeLLMError, match=expected):
            change()
    assert store.load(chat).tree.path() == [first]
    store.close()


FULL = """
mount -t tmpfs -o size=400k tmpfs "$1" && {
    "$2" -c 'import pathlib, sys; from tui.core.store import Store; Store(pathlib.Path(sys.argv[1]))' "$1/chats.db"
    head -c 1000000 /dev/zero > "$1/fill"
    "$2" -m edgellm chat --plain < /dev/null
}
"""


def test_a_disk_that_is_full_at_the_start(tmp_path: Path) -> None:
    """SQLite reports an I/O error; the advice must not be to move the file away."""
    home, alone = tmp_path / "home", ["unshare", "--map-root-user", "--mount"]
    home.mkdir()
    if not shutil.which("unshare") or subprocess.run([*alone, "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs a disk of its own, which Linux lets a user have who may unshare")
    environment = with_support() | {"EDGELLM_HOME": str(home)}
    command = [*alone, "sh", "-c", FULL, "sh", str(home), sys.executable]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    assert done.returncode == 1
    expected = f"edgellm: {home}/chats.db: the disk is full, and changes are not saved; make room on it"
    assert done.stderr.splitlines()[-1] == expected


def test_a_disk_that_fails_is_reported(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failure = sqlite3.OperationalError("disk I/O error")
    failure.sqlite_errorcode = sqlite3.SQLITE_IOERR_READ

    def fail(*_: object) -> None:
        raise failure

    monkeypatch.setattr(database, "migrate", fail)
    with pytest.raises(EdgeLLMError, match=r"cannot be read or written \(disk I/O error\); check the disk") as error:
        Store(path)
    assert "move" not in str(error.value)


def test_a_file_that_is_locked_for_long(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_LOCK_TIMEOUT_S", 0.05)
    store = Store(path)
    with sqlite3.connect(path, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        assert store.chats() == []
        with pytest.raises(EdgeLLMError, match="another program has it locked"):
            store.new_chat("chat", None, None)
        other.execute("COMMIT")
    other.close()
    assert store.new_chat("chat", None, None)
    store.close()


def test_a_closed_store_says_so(path: Path) -> None:
    store = Store(path)
    store.close()
    store.close()
    with pytest.raises(EdgeLLMError, match="closed"):
        store.chats()
