"""Search over all messages: in an index of words (FTS5), or in the messages if this SQLite has no FTS5.

Measured with 2,000 chats and 100,000 messages of 60 MB: with the index a rare word takes 0.1 ms and the most common one
30 ms; without it each word takes 100 to 200 ms. A message that grows is saved several times a second, and not indexed
each time: `catch_up` indexes it before the next message or search.
"""

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence

_UNSPACED = re.compile(
    "([\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff\U00020000-\U0003ffff])"
)
"""Thai, Lao, Burmese, Khmer, Kana, Chinese have no spaces between words: each letter is indexed as a word."""

_MESSAGE_BITS = 31
"""A row of the index has the id `chat << 31 | message`, so that a hit needs no look-up of its message."""

_SNIPPET_LENGTH, _MAX_WORDS = 80, 50

Run = Callable[..., sqlite3.Cursor]
"""Runs an SQL statement with its values."""


def prepare(db: sqlite3.Connection) -> None:
    """Create the index if there is none and this SQLite has FTS5."""
    db.create_function("spaced", 1, _spaced, deterministic=True)
    if has_index(db.execute):
        db.execute("CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5 (text, prefix = '1 2')")


def has_index(run: Run) -> bool:
    """Whether this SQLite has FTS5."""
    return run("SELECT 1 FROM pragma_module_list WHERE name = 'fts5'").fetchone() is not None


def catch_up(run: Run) -> None:
    """Index the messages that were stored since the last call."""
    if has_index(run):
        run(
            f"INSERT OR REPLACE INTO words (rowid, text) SELECT chat << {_MESSAGE_BITS} | id, spaced(text)"
            " FROM messages WHERE id IN (SELECT message FROM unindexed)"
        )
        run("DELETE FROM unindexed")


def forget(run: Run, chat: int) -> None:
    """Remove a chat from the index."""
    if has_index(run):
        run("DELETE FROM words WHERE rowid >= ? AND rowid < ?", chat << _MESSAGE_BITS, chat + 1 << _MESSAGE_BITS)


def forget_message(run: Run, chat: int, message: int) -> None:
    """Remove a message from the index."""
    if has_index(run):
        run("DELETE FROM words WHERE rowid = ?", chat << _MESSAGE_BITS | message)


def find(run: Run, wanted: str, titles: Mapping[int, str]) -> dict[int, tuple[int | None, str]]:
    """The chats, of those in `titles`, that have all the wanted words.

    Returns for each chat the id of a message with a word and a line of it around that word; None and an empty line if
    the title has all words. Each word may be in the title or in any message, in upper or lower case, or be the
    beginning of a longer word. Words after the 50th are ignored.
    """
    words = wanted.lower().split()[:_MAX_WORDS]
    hits = [_hits(run, [word]) for word in words]
    together = _hits(run, words) if len(words) > 1 else {}
    found: dict[int, tuple[int | None, str]] = {}
    for chat, title in titles.items():
        if all(chat in hit or word in title.lower() for word, hit in zip(words, hits, strict=True)):
            messages = [hit[chat] for hit in (together, *hits) if chat in hit]
            found[chat] = (messages[0], _snippet(run, messages[0], words)) if messages else (None, "")
    return found


def _hits(run: Run, words: Sequence[str]) -> dict[int, int]:
    """The chats that have all these words in one message, with the id of the last such message."""
    if has_index(run) and all(map(_is_indexed, words)):
        phrases = " AND ".join('"{}"*'.format(_spaced(word).replace('"', '""')) for word in words)
        columns = f"rowid >> {_MESSAGE_BITS}, max(rowid) & {2**_MESSAGE_BITS - 1}"
        return dict(run(f"SELECT {columns} FROM words WHERE words MATCH ? GROUP BY 1", phrases))
    patterns = ["%{}%".format(re.sub(r"([\\%_])", r"\\\1", word)) for word in words]
    each = " AND ".join(r"text LIKE ? ESCAPE '\'" for _ in patterns)
    return dict(run(f"SELECT chat, max(id) FROM messages WHERE {each} GROUP BY chat", *patterns))


def _is_indexed(word: str) -> bool:
    """Whether the index finds a word: it has no symbols, so that C++ is a C there."""
    return word[0].isalnum() and word[-1].isalnum() and word.isprintable()


def _snippet(run: Run, message: int, words: Sequence[str]) -> str:
    """One line of a message, around the first of the words that it has."""
    found = run("SELECT CAST(text AS TEXT) FROM messages WHERE id = ?", message).fetchone()
    text = found[0] if found else ""  # in a damaged file
    lower = text.lower()
    place = next((place for word in words if (place := lower.find(word)) >= 0), 0)
    early = max(0, place - _SNIPPET_LENGTH // 4)
    start = text.find(" ", early, place) + 1 or early
    line = " ".join(text[start : start + _SNIPPET_LENGTH].split())
    return f"{'…' if start else ''}{line}{'…' if len(text) > start + _SNIPPET_LENGTH else ''}"


def _spaced(text: str) -> str:
    return _UNSPACED.sub(r" \1 ", text)
