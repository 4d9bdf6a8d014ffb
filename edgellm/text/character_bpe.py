"""BPE over characters (`tokenizer.ggml.model` = "gemma4"), merged by the `tokenizers` library.

As in SentencePiece, a space is written as U+2581, and a character without a token as the tokens of its bytes. Unlike
there, pairs merge in the order of the merges, and text is not split into words: a token may hold several words.
"""

from functools import cached_property
from typing import TYPE_CHECKING

from edgellm.gguf import StringArray
from edgellm.text.merges import Merges
from edgellm.text.spm import SPACE, byte_tokens
from edgellm.text.vocabulary import BYTE, CONTROL, NORMAL, USER_DEFINED, Vocabulary

if TYPE_CHECKING:
    from tokenizers import Tokenizer as Library


class CharacterBPE:
    """Text to ids and back for one vocabulary. Its merges are read when text is encoded for the first time.

    `unknown` is the id for characters that not even byte tokens can represent; without it they are left out. Raises
    ModelFileError for damaged byte tokens.
    """

    space_prefix = False

    def __init__(self, vocabulary: Vocabulary, merges: StringArray, unknown: int | None) -> None:
        self._vocabulary = vocabulary
        self._merges = Merges(vocabulary, merges)
        self._unknown = unknown
        self._byte_of = byte_tokens(vocabulary)

    def encode(self, text: str, first: bool) -> list[int]:
        """The ids of `text`, which has no special token. Raises ModelFileError if the merges are damaged."""
        ids: list[int] = self._library.encode(text, add_special_tokens=False).ids
        return ids

    def piece(self, token: int) -> bytes:
        """The bytes of a token; empty for control and unknown tokens."""
        kind, text = self._vocabulary.types[token], self._vocabulary.texts[token]
        if kind == BYTE:
            return bytes([self._byte_of[token]])
        if kind == NORMAL:
            return text.replace(SPACE.encode(), b" ")
        return text if kind == USER_DEFINED else b""

    @cached_property
    def _library(self) -> "Library":
        from tokenizers import Tokenizer, normalizers

        ids = self._vocabulary.ids_by_text("replace", CONTROL)  # merges make no byte token and no unknown token
        unknown = None
        if self._unknown is not None:
            unknown = self._vocabulary.texts[self._unknown].decode("utf-8", "replace")
            ids[unknown] = self._unknown
        library = Tokenizer(self._merges.model(ids, byte_fallback=True, unk_token=unknown, fuse_unk=True))
        library.normalizer = normalizers.Replace(" ", SPACE)
        return library
