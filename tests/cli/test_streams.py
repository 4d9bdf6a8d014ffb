"""Text on a terminal is sanitized; characters that a stream cannot encode or decode are no error."""

import json
import os
import select
import shlex
import subprocess
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedWriter, FileIO
from pathlib import Path

import click
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from edgellm.cli.progress import show_warnings
from edgellm.terminal import streams
from support.make_gguf import write_model
from support.model_file import ModelFile
from support.terminal import Terminal
from support.tiny_vocab import write_spm

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="needs a terminal of its own")
EDGELLM = [sys.executable, "-m", "edgellm"]
HOSTILE = [
    "\x1b]52;c;cm0gLXJmIH4K\x07",  # the clipboard
    "\x1b]8;;https://example.org\x1b\\link\x1b]8;;\x1b\\",
    "\x1b[2J\x1b[H\x1b[8m",  # clears, goes home, hides
    "\x9b2J\x90+q544e\x9c\x9d0;title\x07",  # the same in C1, and DCS
    "\x1bP$qm\x1b\\\x1b[6n\x05",  # questions that a terminal answers as if they were typed
    "\r\x1b[Kedgellm: all is well",
    "safe\u202egnp.exe\u2066\u2069\u200e\u061c",  # other directions
    "\U000e0068\U000e0069",  # tags, which are hidden
    "a\b\bb\x7f\x00\x0e",
    "zalgo" + "\u0301" * 40,
    "\u2028\u2029\ufff9",
]


def harmless(shown: str) -> bool:
    """Whether text has no control, invisible or bidi characters, except line ends and tabs."""
    piled = max(map(len, "".join("x" if unicodedata.combining(c) else " " for c in shown).split()), default=0)
    kinds = {unicodedata.category(c) for c in shown if c not in "\t\r\n"}
    return piled <= 3 and not kinds & {"Cc", "Cf", "Cs", "Zl", "Zp"}


@contextmanager
def opened() -> Iterator[tuple[streams.TerminalStream, Callable[[], str]]]:
    """A stream to a terminal, and a function that returns what was written to it."""
    master, slave = os.openpty()
    stream = streams.TerminalStream(BufferedWriter(FileIO(slave, "w")), "utf-8", "replace")

    def come() -> str:
        stream.flush()
        data = b""
        while select.select([master], [], [], 0)[0]:
            data += os.read(master, 1 << 16)
        return data.decode()

    with stream:
        yield stream, come
    os.close(master)


@given(st.lists(st.one_of(st.sampled_from(HOSTILE), st.text(max_size=8)), max_size=4).map("".join), st.data())
@settings(max_examples=50)
def test_text_in_any_pieces_is_sanitized(text: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(text)), max_size=6)))
    with opened() as (stream, come):
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            stream.write(text[start:end])
            stream.flush()
        assert harmless(come().replace("\r\n", "\n"))


def test_own_styles_reach_a_terminal_and_other_controls_do_not(monkeypatch: pytest.MonkeyPatch) -> None:
    text = click.style("4 clients", bold=True, fg="green") + " of a\x1b[2Jb\n"
    with opened() as (stream, come):
        monkeypatch.setattr(sys, "stdout", stream)
        streams.write_styled(text)
        assert come() == "\x1b[32m\x1b[1m4 clients\x1b[0m of a\u241b[2Jb\r\n"
        monkeypatch.setenv("NO_COLOR", "1")
        streams.write_styled(text)
        assert come() == "4 clients of a\u241b[2Jb\r\n"


def test_a_file_gets_no_styles(capsys: pytest.CaptureFixture[str]) -> None:
    streams.write_styled(click.style("4 clients", bold=True) + "\n")
    assert capsys.readouterr().out == "4 clients\n"


@pytest.mark.parametrize("text", ["Grüße, 模型 🙂\tand\nmore", "नमस्ते\r\nשלום", "é́́"])
def test_safe_text_is_unchanged(text: str) -> None:
    with opened() as (stream, come):
        for character in text:
            stream.write(character)
        assert come().replace("\r\n", "\n") == text.replace("\r\n", "\n")


def test_control_sequences_of_our_own_are_written() -> None:
    with opened() as (stream, come):
        stream.write_control("\r\x1b[K")
        stream.write("\r\x1b[K")
        assert come() == "\r\x1b[K␍␛[K"


def test_a_warning_amid_a_reply_leaves_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    with opened() as (stream, come):
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        with show_warnings():
            for text in ("so far", " and", " more\n"):
                streams.write(text)
                warnings.warn(text.strip(), stacklevel=1)
        notes = [f"edgellm: note: {text}\r\n" for text in ("so far", "and", "more")]
        assert come() == f"so far\r\n{notes[0]} and\r\n{notes[1]} more\r\n\r\x1b[K{notes[2]}"


def on_terminal(shell: str, encoding: str = "utf-8", **env: str) -> str:
    """The bytes that a command writes to a terminal."""
    terminal = Terminal(["sh", "-c", shell], env)
    try:
        terminal.wait()
        return terminal.written.decode(encoding)
    finally:
        terminal.close()


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A vocabulary with a token for each hostile text, from id 259 on."""
    return write_spm(tmp_path_factory.mktemp("v") / "v.gguf", dict.fromkeys(HOSTILE, -1.0), {})


def decoded(hostile: Path, *more: str) -> str:
    ids = " ".join(str(259 + i) for i in range(len(HOSTILE)))
    return f"echo {ids} | {shlex.join([*EDGELLM, 'tokenize', str(hostile), '--decode', *more])}"


@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_decoded_tokens_are_sanitized_in_every_encoding(hostile: Path, encoding: str) -> None:
    shown = on_terminal(decoded(hostile), encoding, PYTHONIOENCODING=encoding)
    assert "zalgo" in shown and "title" in shown
    assert harmless(shown)


def test_a_pipe_and_raw_output_get_the_text_as_it_is(hostile: Path) -> None:
    plain = subprocess.run(["sh", "-c", decoded(hostile)], capture_output=True, check=True).stdout.decode()
    for text in HOSTILE:
        assert text in plain
    raw = on_terminal(decoded(hostile, "--raw-output"))
    assert HOSTILE[0] in raw and HOSTILE[3] in raw


def test_a_generated_text(model_file: ModelFile) -> None:
    path = model_file(width=64, heads=2, kv_heads=1, head_dim=32, ffn=96, types="F32")
    escape = 3 + 0x1B  # the byte's token
    words = ["generate", str(path), "-p", "x", "-n", "3", "--logit-bias", f"{escape}=1000", "--temp", "0", "-q"]
    shell = shlex.join([*EDGELLM, *words])
    assert on_terminal(shell) == "␛␛␛\r\n"
    assert on_terminal(f"{shell} --raw-output") == "\x1b\x1b\x1b\r\n"
    done = subprocess.run([*EDGELLM, *words], stdin=subprocess.DEVNULL, capture_output=True, check=True)
    assert done.stdout == b"\x1b\x1b\x1b\n"


@pytest.mark.parametrize(
    ("words", "encoding"),
    [("info", ""), ("generate -p x", "ascii"), ("chat --plain", ""), ("pull", ""), ("x", "latin-1")],
)
def test_arguments_in_errors(words: str, encoding: str, tmp_path: Path) -> None:
    command, *options = words.split()
    text = "two\nlines" + "".join(HOSTILE).replace("/", "").replace("\0", "")
    shell = shlex.join([*EDGELLM, command, text, *options])
    told = on_terminal(shell, encoding or "utf-8", EDGELLM_HOME=str(tmp_path), PYTHONIOENCODING=encoding)
    assert told.startswith("edgellm: ") and harmless(told)
    assert told.count("\n") == 1


def test_metadata_is_sanitized(tmp_path: Path) -> None:
    """No cell of a table contains a line end."""
    models = tmp_path / "models"
    models.mkdir()
    write_model(models / "evil\x1b[2J\nlines\u202e.gguf", types="F32")
    for words in (["list"], ["info", str(next(models.iterdir()))]):
        shown = on_terminal(f"cd {shlex.quote(str(tmp_path))} && {shlex.join([*EDGELLM, *words])}")
        assert harmless(shown) and "\r\nlines" not in shown


@pytest.mark.parametrize(
    ("encoding", "words"), [("cp1252", "list"), ("ascii", "pull"), ("ascii", "generate 模型 -n 2 -p →")]
)
def test_a_character_that_stdout_cannot_encode_is_no_error(encoding: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "models").mkdir()
    write_model(tmp_path / "models" / "模型.gguf", types="F32", layers=1)
    environment = {**os.environ, "PYTHONIOENCODING": encoding, "EDGELLM_HOME": str(tmp_path)}
    command = [*EDGELLM, *words.split()]
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, cwd=tmp_path, env=environment, check=False
    )
    assert (done.returncode, b"Traceback" in done.stderr) == (0, False)
    assert done.stdout


def test_undecodable_stdin_is_an_answer(tmp_path: Path) -> None:
    environment = {**os.environ, "EDGELLM_HOME": str(tmp_path)}
    folder = tmp_path / "models" / "org" / "name"
    folder.mkdir(parents=True)
    write_model(folder / "m.gguf")
    done = subprocess.run(
        [*EDGELLM, "rm", "org/name"], input=b"\xff\n", capture_output=True, env=environment, check=False
    )
    assert b"Traceback" not in done.stderr and (folder / "m.gguf").exists()


def test_json_has_no_control_characters(hostile: Path) -> None:
    shown = on_terminal(decoded(hostile, "--json"))
    assert harmless(shown)
    assert json.loads(shown).startswith(HOSTILE[0])
