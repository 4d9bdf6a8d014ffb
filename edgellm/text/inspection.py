"""A prompt in detail: the text and tokens that the model gets of a conversation, and warnings of mistakes."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, takewhile
from typing import Any

from edgellm.errors import EdgeLLMError
from edgellm.fmt import printable
from edgellm.text.conversation import Message, texts_of
from edgellm.text.nfc import normalize_nfc
from edgellm.text.prompts import ChatPrompts
from edgellm.text.rendered_prompt import TEMPLATE_ROLE
from edgellm.text.special_tokens import Span
from edgellm.text.tokenizer import Tokenizer


@dataclass(frozen=True)
class Inspection:
    """A prompt: its `text`, its `ids`, and the text of each id in `pieces`, control tokens included.

    `roles` has, for each id, the role of the message that at least a part of it comes from, or "template"; `roles` is
    None if an origin is unknown. `special` are the ids that are control tokens, `stop_tokens` the ids that end a reply,
    with their texts. `warnings` are lines about possible mistakes. If the prompt cannot be rendered it is empty, and a
    warning says why.
    """

    text: str
    ids: list[int]
    pieces: list[str]
    roles: list[str] | None
    special: frozenset[int]
    bos_id: int | None
    eos_id: int | None
    stop_tokens: dict[int, str]
    warnings: list[str]


def inspect(tokenizer: Tokenizer, prompts: ChatPrompts, messages: Sequence[Message], /, **args: Any) -> Inspection:
    """Inspect the prompt of a conversation. Raises nothing: errors become warnings."""
    text, ids, found, warnings = "", list[int](), None, list[str]()
    try:
        rendered = prompts.rendered(messages, **args)
        text, spans = rendered.text, prompts.spans(rendered)
        ids = prompts.encode(text, spans)
        found = _token_roles(tokenizer, spans, ids, text, rendered.roles(messages))
        warnings += chain(_about_bos(prompts, spans), _about_messages(prompts, messages))
    except EdgeLLMError as error:
        warnings.append(str(error))
    return Inspection(
        text=text,
        ids=ids,
        pieces=[_piece(tokenizer, i) for i in ids],
        roles=found,
        special=frozenset(tokenizer.control_texts.values()).intersection(ids),
        bos_id=tokenizer.bos_id,
        eos_id=tokenizer.eos_id,
        stop_tokens={i: _piece(tokenizer, i) for i in sorted(tokenizer.eog_ids)},
        warnings=warnings,
    )


def _piece(tokenizer: Tokenizer, token: int) -> str:
    return tokenizer.token_bytes(token, special=True).decode(errors="replace")


def _token_roles(
    tokenizer: Tokenizer, spans: Sequence[Span], ids: list[int], text: str, char_roles: list[str] | None
) -> list[str] | None:
    """The role of each id, from those of the characters; None if the ids do not spell the text."""
    if char_roles is None:
        return None
    found = list[str]()
    for start, end, token in spans:
        part, roles = text[start:end], char_roles[start:end]
        if token is None and tokenizer.normalizes_nfc:
            part, roles = normalize_nfc(part, roles)
        made = tokenizer.encode_parts([part]) if token is None else [token]
        pieces = [tokenizer.token_bytes(i, special=True) for i in made]
        spelled = part.encode()
        extra = sum(map(len, pieces)) - len(spelled)  # the space that some tokenizers put before text
        if b"".join(pieces) != b" " * extra + spelled:
            return None
        byte_roles = [role for char, role in zip(part, roles, strict=True) for _ in char.encode()]
        found += _piece_roles(pieces, byte_roles, -extra)
    # `ChatPrompts.encode` reduces several BOS to one, and adds a missing one.
    bos = sum(1 for _ in takewhile(lambda i: i == tokenizer.bos_id, ids))
    return [TEMPLATE_ROLE] * bos + found[len(found) - len(ids) + bos :]


def _piece_roles(pieces: Sequence[bytes], byte_roles: Sequence[str], at: int) -> Iterator[str]:
    """The role of each piece; the first piece begins at byte `at`, which may be negative."""
    for piece in pieces:
        roles = byte_roles[max(at, 0) : at + len(piece)]
        at += len(piece)
        yield next((role for role in roles if role != TEMPLATE_ROLE), TEMPLATE_ROLE)


def _about_bos(prompts: ChatPrompts, spans: Sequence[Span]) -> Iterator[str]:
    tokenizer = prompts.tokenizer
    written = sum(1 for _ in takewhile(lambda span: span.token == tokenizer.bos_id, spans))
    if tokenizer.bos_id is None:
        if "bos_token" in prompts.template.names:
            yield "missing BOS: the template asks for one, and the model has none"
    elif written > 1:
        kept = "one is kept" if tokenizer.add_bos else "the model gets them all"
        yield f"doubled BOS: the template writes it {written} times, and {kept}"
    elif not written and tokenizer.add_bos:
        yield "missing BOS: the template writes none; one was put in front, since the model wants it"


def _about_messages(prompts: ChatPrompts, messages: Sequence[Message]) -> Iterator[str]:
    for message in messages:
        texts = list(texts_of(message))
        found = ", ".join(control for control in prompts.controls if any(control in text for text in texts))
        if found:
            yield f"a message from {printable(message['role'])} has {printable(found)} in it: plain text to the model"
