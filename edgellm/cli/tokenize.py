"""`edgellm tokenize`: turns text into token ids, or back."""

import json
import sys

import click

from edgellm.cli.options import option_of
from edgellm.cli.shell_completion import model_names
from edgellm.errors import EdgeLLMError
from edgellm.gguf.auxiliary import check_model_at
from edgellm.models import resolve
from edgellm.options import LoadOptions
from edgellm.system.text_input import decode_utf8
from edgellm.terminal.streams import write
from edgellm.text.tokenizer import Tokenizer


@click.command("tokenize")
@click.argument("model", shell_complete=model_names)
@click.option("--decode", is_flag=True, help="Turn token ids from stdin into text.")
@click.option("--json", "as_json", is_flag=True, help="Print a JSON list, or a JSON string of the text.")
@click.option("--special", is_flag=True, help="Parse control tokens in the text; show them when decoding.")
@click.option("--add-special", is_flag=True, help="Add the BOS and EOS tokens that the model file asks for.")
@click.option("--raw-output", is_flag=True, help="Do not sanitize decoded text: it may control the terminal.")
@option_of(LoadOptions, "tokenizer_pre")
def command(
    model: str,
    decode: bool,
    as_json: bool,
    special: bool,
    add_special: bool,
    raw_output: bool,
    tokenizer_pre: str | None,
) -> None:
    """Turn text from stdin into the token ids of MODEL, or back."""
    if decode and add_special:
        raise click.UsageError("--add-special has no meaning with --decode.")
    path = resolve(model)
    check_model_at(path)
    tokenizer = Tokenizer.open(path, tokenizer_pre)
    text = read_text()
    if decode:
        decoded = tokenizer.decode(parse_ids(text), special)
        click.echo(json.dumps(decoded)) if as_json else _show(decoded, raw_output)
    else:
        ids = tokenizer.encode(text, add_special, parse_special=special)
        click.echo(json.dumps(ids) if as_json else " ".join(map(str, ids)))


def _show(text: str, raw: bool) -> None:
    """Write a text: to a terminal as lines, elsewhere as exact UTF-8 bytes."""
    if sys.stdout and sys.stdout.isatty():
        write(text if text.endswith("\n") else f"{text}\n", raw)
    else:
        click.echo(text.encode(), nl=False)


def read_text() -> str:
    """The text on stdin, with its line ends. Raises EdgeLLMError if it is not UTF-8."""
    try:
        return decode_utf8(sys.stdin.buffer.read()) if sys.stdin else ""
    except UnicodeDecodeError as error:
        raise EdgeLLMError(f"stdin: byte {error.start} is not UTF-8; convert the input") from None


def parse_ids(text: str) -> list[int]:
    """Parse ids between spaces, commas or line ends, with or without brackets. Raises EdgeLLMError for other text."""
    words = text.strip().removeprefix("[").removesuffix("]").replace(",", " ").split()
    for word in words:
        if not (word.isascii() and word.isdigit() and len(word) <= 10):
            raise EdgeLLMError(f"stdin: {word[:40]!r} is no token id; give numbers parted by spaces")
    return [int(word) for word in words]
