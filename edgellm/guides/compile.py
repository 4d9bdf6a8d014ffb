"""From what a reply must conform to, to its guide."""

import json
import re
from functools import cached_property, lru_cache

from llguidance import LLMatcher, LLTokenizer

from edgellm.errors import GuideError
from edgellm.fmt import printable
from edgellm.guides.gbnf.words import gbnf_to_lark
from edgellm.guides.grammar_guide import GrammarGuide
from edgellm.guides.guide import Guide, GuideFactory
from edgellm.guides.lark import NO_FORCING, LarkGrammar, is_lark, with_schemas
from edgellm.guides.schema.grammar import schema_grammar
from edgellm.guides.spec import GuideSpec
from edgellm.guides.utf8_filter import Utf8State, Utf8Tokens
from edgellm.guides.vocabulary import bytes_alone, prepare, text_pieces
from edgellm.text.tokenizer import Tokenizer
from edgellm.text.utf8 import replace_surrogates

_CACHED = 16
"""Compiled grammars that are kept for later replies."""

_PLACE = re.compile(r"(?:at )?(?P<line>\d+)\((?P<column>\d+)\): (?P<problem>.*)", re.DOTALL)


class GuideCompiler:
    """Compiles guides for one model; `vocab` is the width of its logits."""

    def __init__(self, tokenizer: Tokenizer, vocab: int) -> None:
        self._tokenizer, self._vocab = tokenizer, vocab
        self.compile = lru_cache(_CACHED)(self._compile)

    def _compile(self, spec: GuideSpec) -> GuideFactory:
        """Makes the guides of replies to a spec. Raises GuideError."""
        grammar = _grammar(spec)
        matcher = LLMatcher(self._prepared, grammar.text, log_level=0)
        _check(spec, grammar, matcher)
        tokens = self._utf8_tokens if grammar.may_break_utf8 else None

        def new() -> Guide:
            utf8 = Utf8State(tokens) if tokens else None
            return GrammarGuide(matcher.deep_copy(), self._vocab, self._tokenizer.eog_ids, utf8)

        return new

    @cached_property
    def _utf8_tokens(self) -> Utf8Tokens:
        return Utf8Tokens(text_pieces(self._tokenizer))

    @cached_property
    def _prepared(self) -> LLTokenizer:
        return prepare(self._tokenizer)


def check(spec: GuideSpec) -> None:
    """Raises GuideError for a spec that is wrong whatever the model. A grammar may name tokens of one."""
    grammar = _grammar(spec)
    if spec.kind not in ("grammar", "calls"):
        _check(spec, grammar, LLMatcher(bytes_alone(), grammar.text, log_level=0))


def _check(spec: GuideSpec, grammar: LarkGrammar, matcher: LLMatcher) -> None:
    if matcher.is_error():
        raise GuideError(f"option {spec.kind}: {_problem(spec, grammar, matcher.get_error())}")


@lru_cache(_CACHED)
def _grammar(spec: GuideSpec) -> LarkGrammar:
    """The grammar of llguidance for a spec. Raises GuideError."""
    if spec.kind == "json_schema":
        return LarkGrammar(schema_grammar(spec.source, has_text), False, ())
    if spec.kind == "grammar" and not is_lark(spec.source) and "::=" in spec.source:
        return LarkGrammar(gbnf_to_lark(spec.source), False, ())
    if spec.kind == "grammar":
        return with_schemas(spec.source + NO_FORCING, has_text)
    if spec.kind == "calls":
        return with_schemas(spec.source, has_text)
    regex = spec.source if spec.kind == "regex" else "|".join(map(_exactly, json.loads(spec.source)))
    return LarkGrammar(LLMatcher.grammar_from_regex(f"(?:{regex})"), False, ())


def _exactly(text: str) -> str:
    """A regular expression for one text."""
    return "".join(c if c.isalnum() else f"\\x{{{ord(c):x}}}" for c in replace_surrogates(text))


def has_text(terminal: str) -> bool:
    """Whether a terminal, as an expression of a grammar, has a text. Raises GuideError for one that is too complex."""
    matcher = LLMatcher(bytes_alone(), f"start: T\nT: {terminal}", log_level=0)
    if matcher.is_error():
        raise GuideError(f"option json_schema has a pattern that is too complex: {printable(matcher.get_error(), 200)}")
    return matcher.is_accepting() or any(matcher.compute_bitmask()[: 256 // 8])  # without the token that ends a text


def _problem(spec: GuideSpec, grammar: LarkGrammar, error: str) -> str:
    """An error of llguidance on one line: for a grammar with its place, for a regex without."""
    found = _PLACE.match(error)
    problem = found["problem"] if found else error
    # Behind the first line stand the text around the place, and, for a regex, what is wrong with it.
    reasons = re.findall(r"^error: (.*)", problem, re.MULTILINE)
    what = printable(reasons[-1] if reasons else problem.splitlines()[0], 200)
    if spec.kind not in ("grammar", "calls") or not found:
        return what
    return f"line {grammar.line(int(found['line']))}, column {found['column']}: {what}"
