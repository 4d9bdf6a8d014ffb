"""From what a reply must conform to, to its guide."""

import json
import re
from functools import cached_property, lru_cache

import numpy as np
from llguidance import LLMatcher, LLTokenizer

from edgellm.errors import GuideError
from edgellm.fmt import printable
from edgellm.guides.gbnf.words import gbnf_to_lark
from edgellm.guides.grammar_guide import GrammarGuide
from edgellm.guides.guide import Guide, GuideFactory
from edgellm.guides.lark import NO_FORCING, LarkGrammar, is_lark, with_schemas
from edgellm.guides.schema.prepare import prepare_schema
from edgellm.guides.spec import GuideSpec
from edgellm.guides.utf8_filter import Utf8State, Utf8Tokens
from edgellm.guides.vocabulary import bytes_alone, prepare, text_pieces
from edgellm.text.tokenizer import Tokenizer
from edgellm.text.utf8 import replace_surrogates

_CACHED = 16
"""Compiled grammars that are kept for later replies."""

_IN_OTHER_WORDS = {
    "patternProperty regexes": "two patterns of patternProperties match the same name; make them exclude each other",
    "recursion limit exceeded": "the schema has more than 127 levels of brackets; make it flatter",
    "Unable to determine if regex is empty": "a pattern, with the lengths and patterns beside it, is too complex",
    "lookarounds not supported": "\\b, \\B and anchors inside of a regex are not supported; leave them out",
    "min/maxProperties only": "minProperties and maxProperties above 1 need properties of which all are required",
}
"""For errors of llguidance that name what it made of a schema."""

_EMPTY = {
    "json_schema": "it allows no value of finite size; give it an end where it names itself",
    "regex": "it matches no text",
}

_PLACE = re.compile(r"(?:at )?(?P<line>\d+)\((?P<column>\d+)\): (?P<problem>.*)", re.DOTALL)

_CARET = re.compile(r"regex parse error:\n    (?P<regex>[^\n]*)\n    (?P<before> *)\^")
"""How the crate regex shows the place of an error in a regex of one line."""


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


def accepts(spec: GuideSpec, text: str) -> bool:
    """Whether a whole text conforms to a spec, in the style in which guides write JSON. Raises GuideError."""
    matcher, tokens = LLMatcher(bytes_alone(), _grammar(spec).text, log_level=0), list(text.encode())
    return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()


def _check(spec: GuideSpec, grammar: LarkGrammar, matcher: LLMatcher) -> None:
    """Raise GuideError for a grammar that is wrong or too large, a schema without a value, a regex without a text."""
    matchers = [matcher]
    if spec.kind == "regex":  # in brackets, as it is compiled, it might close these; alone, it might escape its end
        matchers.insert(0, LLMatcher(bytes_alone(), LLMatcher.grammar_from_regex(spec.source), log_level=0))
    if error := next((each.get_error() for each in matchers if each.is_error()), ""):
        raise GuideError(f"option {spec.kind}: {_problem(spec, grammar, error)}")
    if spec.kind != "calls":  # of which an error names a tool, not an option
        _check_start(spec, matcher.deep_copy())


def _check_start(spec: GuideSpec, matcher: LLMatcher) -> None:
    """Raise GuideError for a spec that allows nothing, or whose automaton is too large behind a first token."""
    allowed = np.unpackbits(np.frombuffer(matcher.compute_bitmask(), np.uint8), bitorder="little")
    if spec.kind in _EMPTY and (matcher.is_error() or (matcher.is_stopped() and not matcher.is_accepting())):
        raise GuideError(f"option {spec.kind}: {_EMPTY[spec.kind]}")
    if allowed.any():
        matcher.try_consume_tokens([int(allowed.argmax())])
    if matcher.is_error():
        raise GuideError(f"option {spec.kind}: it is too large to follow; shorten its repetitions")


@lru_cache(_CACHED)
def _grammar(spec: GuideSpec) -> LarkGrammar:
    """The grammar of llguidance for a spec. Raises GuideError."""
    if spec.kind == "json_schema":
        return LarkGrammar(LLMatcher.grammar_from_json_schema(prepare_schema(spec.source)))
    if spec.kind == "grammar" and not is_lark(spec.source) and "::=" in spec.source:
        return LarkGrammar(gbnf_to_lark(spec.source))
    if spec.kind == "grammar":
        return with_schemas(spec.source + NO_FORCING)
    if spec.kind == "calls":  # where these exclude a text, they say of which texts: valid UTF-8 alone
        return with_schemas(spec.source)._replace(may_break_utf8=False)
    regex = spec.source if spec.kind == "regex" else "|".join(map(_exactly, json.loads(spec.source)))
    return LarkGrammar(LLMatcher.grammar_from_regex(f"(?:{regex})"))


def _exactly(text: str) -> str:
    """A regular expression for one text."""
    return "".join(c if c.isalnum() else f"\\x{{{ord(c):x}}}" for c in replace_surrogates(text))


def _problem(spec: GuideSpec, grammar: LarkGrammar, error: str) -> str:
    """An error of llguidance on one line: for a grammar with its place, for a regex without."""
    found = _PLACE.match(error)
    problem = found["problem"] if found else error
    # Behind the first line stand the text around the place, and, for a regex, what is wrong with it.
    reasons = re.findall(r"^error: (.*)", problem, re.MULTILINE)
    known = next((words for text, words in _IN_OTHER_WORDS.items() if text in problem), None)
    what = known or printable(reasons[-1] if reasons else problem.splitlines()[0], 200)
    if (caret := _CARET.search(problem)) and spec.kind == "regex" and caret["regex"] == spec.source:
        return f"{what}, at character {len(caret['before']) + 1}"
    if spec.kind not in ("grammar", "calls") or not found:
        return what
    return f"line {grammar.line(int(found['line']))}, column {found['column']}: {what}"
