"""From what a reply must conform to, to its guide."""

from functools import cached_property, lru_cache

from llguidance import LLMatcher, LLTokenizer

from edgellm.errors import GuideError
from edgellm.fmt import printable
from edgellm.guides.grammar_guide import GrammarGuide
from edgellm.guides.guide import Guide, GuideFactory
from edgellm.guides.spec import GuideSpec
from edgellm.guides.vocabulary import prepare
from edgellm.text.tokenizer import Tokenizer

_CACHED = 16
"""Compiled grammars that are kept for later replies."""


class GuideCompiler:
    """Compiles guides for one model; `vocab` is the width of its logits."""

    def __init__(self, tokenizer: Tokenizer, vocab: int) -> None:
        self._tokenizer, self._vocab = tokenizer, vocab
        self.compile = lru_cache(_CACHED)(self._compile)

    def _compile(self, spec: GuideSpec) -> GuideFactory:
        """The guides of replies to a spec. Raises GuideError."""
        matcher = LLMatcher(self._prepared, LLMatcher.grammar_from_json_schema(spec.source), log_level=0)
        if matcher.is_error():
            raise GuideError(f"{spec.kind}: {printable(matcher.get_error(), 300)}")

        def new() -> Guide:
            return GrammarGuide(matcher.deep_copy(), self._vocab, self._tokenizer.eog_ids)

        return new

    @cached_property
    def _prepared(self) -> LLTokenizer:
        return prepare(self._tokenizer)
