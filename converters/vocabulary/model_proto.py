"""A parser for tokenizer.model, limited to the fields that a vocabulary needs.

The fields are those of SentencePiece's sentencepiece_model.proto, in the protocol buffers encoding:

    ModelProto      1 pieces (repeated)   2 trainer_spec   3 normalizer_spec
    SentencePiece   1 piece (text)        2 score (float)  3 type (1 normal, 2 unknown, 3 control, 4 user-defined,
                                                                   5 unused, 6 byte: the numbers of GGUF, too)
    TrainerSpec     3 model_type (1 unigram, 2 BPE, 3 word, 4 char)
    NormalizerSpec  2 precompiled_charsmap (characters to replace)   3 add_dummy_prefix (a space is put before a text)
                    4 remove_extra_whitespaces
"""

import math
import struct
from collections.abc import Iterator
from typing import NamedTuple

from converters.vocabulary.tokens import BYTE_TEXT, VocabToken
from edgellm.errors import ModelFileError, UnsupportedModelError
from edgellm.text.vocabulary import BYTE, NORMAL

UNIGRAM, BPE, WORD, CHAR = 1, 2, 3, 4
_VARINT, _EIGHT, _BYTES, _FOUR = 0, 1, 2, 5


class ModelProto(NamedTuple):
    """A SentencePiece model: its tokens, the `kind` of algorithm, and the normalization of a text.

    `space_prefix`: a space is put before it. `normalizes`: characters are replaced. `single_spaces`: runs of spaces
    become one.
    """

    pieces: list[VocabToken]
    kind: int
    space_prefix: bool
    normalizes: bool
    single_spaces: bool


def parse(data: bytes, where: str) -> ModelProto:
    """Parse the bytes of a file, which messages call `where`.

    Raises ModelFileError for damaged data, UnsupportedModelError for an algorithm that no GGUF reader has.
    """
    try:
        model = _model(data)
    except (ValueError, IndexError, struct.error) as error:
        problem = str(error) if type(error) is ValueError else "the data is cut off"
        raise ModelFileError(f"{where} is no whole SentencePiece model: {problem}; get it again") from error
    if model.kind in (UNIGRAM, BPE):
        return model
    raise UnsupportedModelError(f"{where}: its tokens are whole words or letters, which GGUF cannot represent")


def _model(data: bytes) -> ModelProto:
    fields = [(number, value) for number, value in _fields(data) if number <= 3]
    pieces = [_piece(_inner(value)) for number, value in fields if number == 1]
    if not pieces or len({piece.text for piece in pieces}) < len(pieces):
        raise ValueError("it has a token twice" if pieces else "it has no tokens")
    trainer, normalizer = (
        dict(_fields(b"".join(_inner(value) for number, value in fields if number == each))) for each in (2, 3)
    )
    return ModelProto(
        pieces,
        kind=int(trainer.get(3, UNIGRAM)),
        space_prefix=bool(normalizer.get(3, True)),
        normalizes=bool(normalizer.get(2)),
        single_spaces=bool(normalizer.get(4, True)),
    )


def _piece(data: bytes) -> VocabToken:
    fields = dict(_fields(data))
    try:
        text = _inner(fields.get(1, b"")).decode()
    except UnicodeDecodeError:
        raise ValueError("the text of a token is not UTF-8") from None
    (score,) = struct.unpack("<f", _inner(fields.get(2, bytes(4))))
    kind = fields.get(3, NORMAL)
    if not text or not math.isfinite(score) or not isinstance(kind, int) or not 1 <= kind <= 6:
        raise ValueError("a token has no text, no score or no known type")
    if kind == BYTE and not BYTE_TEXT.fullmatch(text):
        raise ValueError("a byte token does not say which byte it is")
    return VocabToken(text, kind, score)


def _inner(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number stands where text or a message belongs")
    return value


def _fields(data: bytes) -> Iterator[tuple[int, int | bytes]]:
    """The numbers and values of a message's fields: an int for a varint, else the bytes."""
    at = 0
    while at < len(data):
        tag, at = _varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            number, at = _varint(data, at)
            yield tag >> 3, number
            continue
        if kind not in (_EIGHT, _BYTES, _FOUR):
            raise ValueError("there is a field of an unknown kind")
        length, at = _varint(data, at) if kind == _BYTES else (8 if kind == _EIGHT else 4, at)
        if length > len(data) - at:
            raise ValueError("the data is cut off")
        yield tag >> 3, data[at : at + length]
        at += length


def _varint(data: bytes, at: int) -> tuple[int, int]:
    """The varint at `at` (seven bits to a byte, lowest first), and the position after it."""
    value = shift = 0
    while data[at] & 0x80:
        value |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if shift > 63:
            raise ValueError("a number is too long")
    return value | data[at] << shift, at + 1
