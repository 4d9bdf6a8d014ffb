"""The tokens of a GGUF file: their texts, types and the ids with a role, all checked.

Keys and type numbers are those of the GGUF specification (ggml/docs/gguf.md, "Tokenizer").
"""

from itertools import compress, repeat
from typing import NoReturn, cast

import numpy as np

from edgellm.gguf import GGUFFile
from edgellm.gguf.values import NO_TOKEN

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# Files in the wild type these as plain tokens too, and often name only one of them as the end. The last three end
# what is written between two parts of a file.
END_TEXTS = frozenset(
    b"<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|eom_id|> <EOT> _<EOT> <|end_of_text|> "
    b"<end_of_utterance> <|return|> <|call|> <|endofprompt|> <|fim_pad|> <|repo_name|> <|file_sep|>".split()
)
_CONTROL_TEXTS = END_TEXTS | frozenset(b"<|fim_prefix|> <|fim_suffix|> <|fim_middle|>".split())
_END_ROLES = ("eos", "eot", "eom")

ENDS_KEY = "tokenizer.ggml.eos_token_ids"
"""All ids that end a reply, where a model's makers name several. No part of the GGUF specification; ollama reads it."""


class Vocabulary:
    """Token texts as bytes, types and role ids of an open file; it holds no view of the map.

    Raises ModelFileError when an array is missing or of another length, or an id is out of range.
    """

    def __init__(self, file: GGUFFile) -> None:
        self._file = file
        self.texts: list[bytes] = list(file.get_strings("tokenizer.ggml.tokens").raws())
        if not self.texts:
            self.fail("tokenizer.ggml.tokens is empty")
        self._known = {text: i for i, text in enumerate(self.texts) if text in _CONTROL_TEXTS}
        self.types = self._read_types()
        self._special = [i for i, kind in enumerate(self.types) if kind != NORMAL]

    def __len__(self) -> int:
        return len(self.texts)

    def fail(self, problem: str) -> NoReturn:
        """Raise ModelFileError about the file."""
        self._file.fail(f"{problem}; get another conversion of the model")

    def numbers(self, name: str, kind: type[float]) -> list[float] | None:
        """The array `tokenizer.ggml.NAME`, one number for each token; None when the file has none."""
        key = f"tokenizer.ggml.{name}"
        array = self._file.get_array(key, kind, None)
        if array is None:
            return None
        if len(array) != len(self):
            self.fail(f"{key} has {len(array)} entries for {len(self)} tokens")
        values: list[float] = array.tolist()
        return values

    def role(self, role: str, default: int | None = None) -> int | None:
        """The id of `tokenizer.ggml.ROLE_token_id`, None if it says that there is none; without that key `default`, if
        there is such a token."""
        key = f"tokenizer.ggml.{role}_token_id"
        found = self._file.get_int(key, None)
        if found in NO_TOKEN:
            return None
        if found is None:
            return default if default is not None and default < len(self) else None
        if not 0 <= found < len(self):
            self.fail(f"{key} is {found}, outside the {len(self)} tokens")
        return found

    def ends(self, eos: int | None) -> frozenset[int]:
        """Every id that ends a generation: those the file lists, those with an ending role or a known ending text."""
        known = {text: i for text, i in self._known.items() if text in END_TEXTS}
        if b"<|return|>" in known and b"<|call|>" in known:
            known.pop(b"<|end|>", None)  # in this dialect it ends a message, and the reply goes on
        roles = (eos, *(self.role(name) for name in _END_ROLES))
        array = self._file.hint(ENDS_KEY, np.ndarray)
        listed = [] if array is None or array.dtype.kind not in "iu" else array.tolist()
        in_range = {i for i in listed if 0 <= i < len(self)}  # others nothing can generate
        return frozenset(known.values()) | {i for i in roles if i is not None} | in_range

    def of_type(self, *types: int) -> list[int]:
        """The ids of the tokens of these types, in order; NORMAL is none of them."""
        return [i for i in self._special if self.types[i] in types]

    def ids_by_text(self, errors: str, *hidden: int) -> dict[str, int]:
        """Ids by text, as `errors` decodes it, but for the tokens of `hidden` types and those without a text."""
        kept = [kind not in hidden for kind in self.types]
        texts = map(bytes.decode, self.texts, repeat("utf-8"), repeat(errors))
        ids = dict(compress(zip(texts, range(len(self)), strict=True), kept))
        ids.pop("", None)
        return ids

    def _read_types(self) -> list[int]:
        """A type for each token; a known one is a control token whatever the file says."""
        types = cast(list[int], self.numbers("token_type", int)) or [NORMAL] * len(self)
        for i in self._known.values():
            types[i] = CONTROL
        return types
