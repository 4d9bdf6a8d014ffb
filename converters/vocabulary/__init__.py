"""From the tokenizer of a checkpoint to the `tokenizer.*` keys of a GGUF file.

    files.py           the files of a checkpoint; every JSON type is checked on access
    sentencepiece.py   tokenizer.model, parsed by model_proto.py
    byte_level.py      tokenizer.json of byte-level BPE; pretokenizer.py recognises its pre-tokenizer
    metaspace.py       tokenizer.json made from a SentencePiece model
    character_bpe.py   tokenizer.json of BPE over characters, as Gemma 4 has it
    tekken.py          tekken.json, Mistral's own format
    tiktoken.py        tiktoken.model, of Kimi's models
    families.py        what llama.cpp's converter knows by the model's family
    added.py           the model's tokens and the added tokens of a tokenizer.json
    tokens.py          the token arrays of the GGUF file
    special.py         ids of special tokens; post_processor.py finds which of them are added around a text
    eog.py             all end-of-generation ids
    templates.py       chat templates
    unrepresentable.py warnings about tokenizer features that GGUF cannot represent

Keys, their order and values are those of llama.cpp's converter (conversion/base.py and gguf-py's vocab.py), with
these differences:

- a tokenizer.json made from a SentencePiece model gets real scores, special tokens are control tokens, and the
  vocabulary has the size in config.json: llama.cpp's file would tokenize differently from training, or not load;
- `add_space_prefix` is also written if only tokenizer.json or tokenizer.model says that there is none;
- a tokenizer.model that gives a token another id than tokenizer.json is ignored, and tokens that only tokenizer.json
  adds are included, since transformers reads that file;
- all end-of-generation ids are written, not only the first, and those beyond eos also as eot and eom;
- an added token whose id differs from the one that the tokenizers library assigns is an error;
- named chat templates keep their order, and a null one counts as absent.
"""

import warnings
from typing import cast

from converters.tensors import Metadata, MetadataValue
from converters.vocabulary.byte_level import byte_level, is_byte_level
from converters.vocabulary.character_bpe import character_bpe, is_character_bpe
from converters.vocabulary.eog import eog_token_ids
from converters.vocabulary.families import TokenizerFamily, tokenizer_family
from converters.vocabulary.files import CheckpointFiles, JsonObject, display_path, read
from converters.vocabulary.metaspace import metaspace, space_prefix
from converters.vocabulary.model_proto import ModelProto, parse
from converters.vocabulary.sentencepiece import check_same_ids, sentencepiece
from converters.vocabulary.special import special_tokens
from converters.vocabulary.tekken import tekken
from converters.vocabulary.templates import chat_templates
from converters.vocabulary.tiktoken import tiktoken
from converters.vocabulary.unrepresentable import warn_unrepresentable
from edgellm.errors import EdgeLLMWarning, ModelFileError, UnsupportedModelError

__all__ = ["CheckpointFiles", "vocabulary"]

# Vocabulary sizes by which llama.cpp recognises two families with incomplete files.
_CODE_LLAMA, _CODE_LLAMA_EOT = 32016, 32010
_SMOLLM = 49152


def vocabulary(checkpoint: CheckpointFiles, vocab_size: int | None) -> Metadata:
    """The metadata of a checkpoint's tokenizer: `tokenizer.ggml.*` and the chat template, in llama.cpp's order.

    `vocab_size` is the number of rows of the embedding, None if unknown. Raises ModelFileError for files that are
    missing, damaged or inconsistent, UnsupportedModelError for an unknown kind of tokenizer.
    """
    tokenizer, settings = read(checkpoint, "tokenizer.json"), read(checkpoint, "tokenizer_config.json")
    model = _model(checkpoint, tokenizer)
    rules = tokenizer_family(checkpoint.config)
    prefix, tokens = _tokens(checkpoint, model, tokenizer, settings, vocab_size, rules)
    pre = tokens.get("tokenizer.ggml.pre")
    warn_unrepresentable(display_path(checkpoint), tokenizer, settings, model, pre and pre.value)
    add_space = settings.get("add_prefix_space", bool) if settings and rules.prefix_key else None
    if add_space is None and not prefix:
        add_space = prefix
    head = {} if add_space is None else {"tokenizer.ggml.add_space_prefix": MetadataValue("bool", add_space)}
    size = len(cast(list[str], tokens["tokenizer.ggml.tokens"].value))
    made = head | tokens | special_tokens(tokenizer, settings, checkpoint.config, size, display_path(checkpoint))
    made |= eog_token_ids(checkpoint, made, size)
    made |= chat_templates(checkpoint, settings)
    if rules.prefix_key and vocab_size == _CODE_LLAMA:
        made["tokenizer.ggml.eot_token_id"] = MetadataValue("u32", _CODE_LLAMA_EOT)
    gemma4 = made["tokenizer.ggml.model"].value == "gemma4"
    if gemma4 or (rules.prefix_key and vocab_size == _SMOLLM):
        made["tokenizer.ggml.add_bos_token"] = MetadataValue("bool", gemma4)
    return made


def _model(checkpoint: CheckpointFiles, tokenizer: JsonObject | None) -> ModelProto | None:
    """The content of tokenizer.model; None if it is absent or unusable and tokenizer.json is read instead.

    Some files of that name belong to tiktoken, or to the model from which this one was made.
    """
    data = checkpoint.bytes("tokenizer.model")
    if data is None:
        return None
    where = display_path(checkpoint, "tokenizer.model")
    try:
        model = parse(data, where)
        if tokenizer:
            check_same_ids(model, tokenizer, where)
    except (ModelFileError, UnsupportedModelError) as error:
        if not tokenizer:
            raise
        problem = str(error).removesuffix("; get it again")
        warnings.warn(f"{problem}; tokenizer.json is read instead", EdgeLLMWarning, stacklevel=3)
        return None
    return model


def _tokens(
    checkpoint: CheckpointFiles,
    model: ModelProto | None,
    tokenizer: JsonObject | None,
    settings: JsonObject | None,
    size: int | None,
    rules: TokenizerFamily,
) -> tuple[bool | None, dict[str, MetadataValue]]:
    """Whether a space is put before a text (None for BPE by merges, which has none), and the metadata of the tokens."""
    if model is not None:
        where, added = display_path(checkpoint, "tokenizer.model"), read(checkpoint, "added_tokens.json")
        return model.space_prefix, sentencepiece(model, tokenizer, added, settings, size, where)
    if tokenizer is None:
        if own := read(checkpoint, "tekken.json"):
            return None, tekken(own, size)
        return None, _of_tiktoken(checkpoint, settings, size, rules)
    more = [document for document in (settings, read(checkpoint, "special_tokens_map.json")) if document]
    if is_byte_level(tokenizer):
        return None, byte_level(tokenizer, more, size, rules)
    if is_character_bpe(tokenizer):
        return False if rules.gemma4 else None, character_bpe(tokenizer, more, size, rules)
    made = metaspace(tokenizer, more, size)
    return space_prefix(tokenizer), made


def _of_tiktoken(
    checkpoint: CheckpointFiles, settings: JsonObject | None, size: int | None, rules: TokenizerFamily
) -> dict[str, MetadataValue]:
    """The metadata of the tokens of a tiktoken.model, the last of the files that a checkpoint may have."""
    data, where = checkpoint.bytes("tiktoken.model"), display_path(checkpoint, "tiktoken.model")
    if data is None:
        text = "it has no tokenizer.json, tokenizer.model or tekken.json; get the one that belongs to the model"
        raise ModelFileError(f"{display_path(checkpoint)}: {text}")
    if rules.tiktoken is None:
        text = "how its words are cut is not known for this model; get a copy of the checkpoint with a tokenizer.json"
        raise UnsupportedModelError(f"{where}: {text}")
    return tiktoken(data, settings, size, rules.tiktoken, where)
