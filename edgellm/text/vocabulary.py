"""The vocabulary of a GGUF file: token texts, types and special ids, all checked.

Keys and type numbers are those of the GGUF specification (ggml/docs/gguf.md, "Tokenizer").
"""

from itertools import compress, repeat
from typing import NoReturn, cast

import numpy as np

from edgellm.gguf import GGUFFile
from edgellm.gguf.values import NO_TOKEN

NORMAL, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE = range(1, 7)

# Texts of tokens that end a generation. Published files often give these tokens the type of plain ones, and name only
# one of them as EOS. The last three end text that is filled in between two parts of a file.
END_TEXTS = frozenset(
    b"<|eot_id|> <|im_end|> <|end|> <end_of_turn> <|endoftext|> <|eom_id|> <EOT> _<EOT> <|end_of_text|> "
    b"<end_of_utterance> <|return|> <|call|> <|calls|> <|flush|> <|endofprompt|> <turn|> <|tool_response> [e~[ "
    b"<|fim_pad|> <|repo_name|> <|file_sep|>".split()
)
# These end a generation only if the file says that they are control tokens: others have them as words of HTML or code.
_END_CONTROLS = frozenset(
    "</s> <eos> [EOS] [EOT] <|eot|> <|END_OF_TURN_TOKEN|> <\uff5cend\u2581of\u2581sentence\uff5c>".encode().split()
)
_CONTROL_TEXTS = END_TEXTS | frozenset(b"<|fim_prefix|> <|fim_suffix|> <|fim_middle|>".split())
RENDERED_TEXTS = frozenset(b'<|channel> <channel|> <|tool_call> <tool_call|> <tool_response|> <|"|>'.split())
"""Control tokens of Gemma 4 that files call user-defined, so that readers show them in a reply. A text has them only
where control tokens are looked for."""
# With one of these pairs in the vocabulary, <|end|> ends a message, and the reply continues: gpt-oss and Solar Open.
_BEYOND_MESSAGES = ((b"<|return|>", b"<|call|>"), (b"<|flush|>", b"<|calls|>"))
_END_ROLES = ("eos", "eot", "eom")

ENDS_KEY = "tokenizer.ggml.eos_token_ids"
"""All ids that end a reply, if the model's makers name several. Not in the GGUF specification; ollama reads it."""


class Vocabulary:
    """Token texts (bytes), types and special ids of an open file, copied: the file may be closed afterwards.

    Raises ModelFileError if an array is missing or has the wrong length, or if an id is out of range.
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
        """Raise ModelFileError with the name of the file."""
        self._file.fail(f"{problem}; get another conversion of the model")

    def numbers(self, name: str, kind: type[float]) -> list[float] | None:
        """The array `tokenizer.ggml.NAME`, one number for each token; None if the file has none."""
        key = f"tokenizer.ggml.{name}"
        array = self._file.get_array(key, kind, None)
        if array is None:
            return None
        if len(array) != len(self):
            self.fail(f"{key} has {len(array)} entries for {len(self)} tokens")
        values: list[float] = array.tolist()
        return values

    def role(self, role: str, default: int | None = None) -> int | None:
        """The id in `tokenizer.ggml.ROLE_token_id`, None if the key means "no token". If the key is missing: `default`,
        if the vocabulary has that id, else None."""
        key = f"tokenizer.ggml.{role}_token_id"
        found = self._file.get_int(key, None)
        if found in NO_TOKEN:
            return None
        if found is None:
            return default if default is not None and default < len(self) else None
        if not 0 <= found < len(self):
            self.fail(f"{key} is {found}, outside the {len(self)} tokens")
        return found

    def eog_ids(self, eos: int | None) -> frozenset[int]:
        """All ids that end a generation: those the file lists, EOS, EOT and EOM, and those known by their text."""
        known = {text: i for text, i in self._known.items() if text in END_TEXTS}
        known |= {self.texts[i]: i for i in self.of_type(CONTROL) if self.texts[i] in _END_CONTROLS}
        if any(first in known and second in known for first, second in _BEYOND_MESSAGES):
            known.pop(b"<|end|>", None)
        roles = (eos, *(self.role(name) for name in _END_ROLES))
        array = self._file.hint(ENDS_KEY, np.ndarray)
        listed = [] if array is None or array.dtype.kind not in "iu" else array.tolist()
        in_range = {i for i in listed if 0 <= i < len(self)}  # other ids cannot be generated
        return frozenset(known.values()) | {i for i in roles if i is not None} | in_range

    def of_type(self, *types: int) -> list[int]:
        """The ids of the tokens of these types, in order. NORMAL is not supported."""
        return [i for i in self._special if self.types[i] in types]

    def ids_by_text(self, errors: str, *hidden: int) -> dict[str, int]:
        """Ids by text, decoded with `errors`, without the tokens of `hidden` types and those with an empty text."""
        kept = [kind not in hidden for kind in self.types]
        texts = map(bytes.decode, self.texts, repeat("utf-8"), repeat(errors))
        ids = dict(compress(zip(texts, range(len(self)), strict=True), kept))
        ids.pop("", None)
        return ids

    def _read_types(self) -> list[int]:
        """The type of each token. Tokens with a known control text are control tokens, whatever the file says."""
        types = cast(list[int], self.numbers("token_type", int)) or [NORMAL] * len(self)
        for i in self._known.values():
            types[i] = CONTROL
        return types
