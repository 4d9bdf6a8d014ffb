"""Regular expressions, choices, and grammars in the syntaxes of Lark and of llama.cpp."""

import itertools
import json
import re
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgellm.errors import GuideError
from edgellm.guides.gbnf.words import gbnf_to_lark
from edgellm.guides.lark import is_lark
from support.guided_walk import Guides

JSON_GBNF = r"""
root   ::= object
value  ::= object | array | string | number | ("true" | "false" | "null") ws
object ::=
  "{" ws (
            string ":" ws value
    ("," ws string ":" ws value)*
  )? "}" ws
array  ::= "[" ws ( value ("," ws value)* )? "]" ws
string ::= # the text between quotes
  "\"" (
    [^"\\\x7F\x00-\x1F] |
    "\\" (["\\bfnrt] | "u" [0-9a-fA-F]{4})
  )* "\"" ws
number ::= ("-"? ([0-9] | [1-9] [0-9]{0,15})) ("." [0-9]+)? ([eE] [-+]? [0-9] [1-9]{0,15})? ws
ws ::= | " " | "\n" [ \t]{0,20}
"""
"""The grammar of JSON that llama.cpp's documentation has."""

ARITHMETIC_GBNF = r"""
root  ::= (expr "=" ws term "\n")+
expr  ::= term ([-+*/] term)*
term  ::= ident | num | "(" ws expr ")" ws
ident ::= [a-z] [a-z0-9_]* ws
num   ::= [0-9]+ ws
ws    ::= [ \t\n]*
"""
"""Another one of these. White space may end before a line end or behind it."""


def accepts(guides: Guides, kind: str, source: str) -> Callable[[str], bool]:
    return lambda text: guides.accepts(guides.new(kind, source), text)


@pytest.mark.parametrize(
    ("regex", "right", "wrong"),
    [
        ("[ab]+c?", ["a", "bac"], ["", "c", "ac "]),
        ("a|bc", ["a", "bc"], ["ac", "b"]),
        ("^a$", ["a"], ["", "aa"]),
        ("(?i)é/x", ["É/X", "é/x"], ["e/x"]),
        (".{2}", ["a\u20ac", "😀é"], ["a\n", "a"]),
        (r'"\d{1,3}(,\d{3})*"', ['"1,000"'], ['"1000"']),
    ],
)
def test_a_regex_matches_the_whole_reply(guides: Guides, regex: str, right: list[str], wrong: list[str]) -> None:
    matches = accepts(guides, "regex", regex)
    assert [text for text in right if not matches(text)] == []
    assert [text for text in wrong if matches(text)] == []


@pytest.mark.parametrize(
    ("regex", "problem"),
    [
        ("a(", "unclosed group, at character 2"),
        ("a)|(b", "unopened group, at character 2"),
        ("x[a&&b]", "it matches no text"),
        ("a{1000000}", "it is too large to follow; shorten its repetitions"),
        ("a\\", "unclosed group"),
        ("a(?=b)", "look-around, including look-ahead and look-behind, is not supported, at character 2"),
        ("(?-u:\\xff)", "pattern can match invalid UTF-8, at character 6"),
        ("a\\1", "backreferences are not supported, at character 2"),
    ],
)
def test_a_wrong_regex_is_an_error(guides: Guides, regex: str, problem: str) -> None:
    with pytest.raises(GuideError, match=f"^option regex: {re.escape(problem)}$"):
        guides.new("regex", regex)


def test_a_reply_is_one_of_the_choices(guides: Guides) -> None:
    choices = ["yes", "no", "no way", 'a"b', "a/b|c", "\n", "ja\u0308 \U0001f600"]
    is_choice = accepts(guides, "choices", json.dumps(choices))
    assert all(map(is_choice, choices))
    assert not any(map(is_choice, ["y", "yesno", "no ", "", "a", "no way!"]))


LARK = """
%llguidance {}
start: "call " NAME "(" args ")"
args: %json {
  "type": "array",
  "items": {"type": "integer"}
}  // a schema
   | %json true "!"
NAME: /[a-z]+\\/?/ & ~"x"
"""


def test_a_grammar_in_larks_syntax_may_contain_schemas(guides: Guides) -> None:
    follows = accepts(guides, "grammar", LARK)
    assert all(map(follows, ["call f([1, 2])", "call ab/([])", 'call f({"a": 1}!)']))
    assert not any(map(follows, ["call x([1])", "call f([1,2])", "call f([1.5])", "call f", "call f(true)"]))


@pytest.mark.parametrize(
    ("grammar", "problem"),
    [
        ('start: a\nb: "x"', 'line 1, column 8: unknown name: "a"'),
        ('start: "a', "line 1, column 10: lexer error"),
        ('start: <|nothing|> "a"', "unknown special token"),
        ("start: %json {x}", "line 1 has a %json whose schema is not valid"),
        ('start: "a"\nx: %json {"not": {}}', "option grammar: line 2: %json: #/not is a keyword"),
        ('start: a\na[stop="x"]: /.*/', "line 2 has stop, which no guide follows"),
        ("start: a\na[temperature=0.5]: /.*/", "line 2 has temperature"),
        ("what is this", "line 1"),
    ],
)
def test_a_wrong_grammar_is_an_error_with_its_place(guides: Guides, grammar: str, problem: str) -> None:
    with pytest.raises(GuideError) as caught:
        guides.new("grammar", grammar)
    assert problem in str(caught.value)
    assert "\n" not in str(caught.value)


def test_lines_are_those_of_the_user_behind_a_schema(guides: Guides) -> None:
    with pytest.raises(GuideError, match="line 6, column 4: "):
        guides.new("grammar", 'start: a\na: %json {\n\n"type": "null"\n} "x"\nb: c\n'.replace("start: a", "start: a b"))


def test_both_syntaxes_are_told_apart() -> None:
    assert not is_lark(JSON_GBNF)
    assert not is_lark('root ::= "start: x"')
    assert all(map(is_lark, [LARK, 'start: "a"', "// c\n?start : x", "start[lazy]: /x/"]))


@pytest.mark.parametrize(
    ("grammar", "right", "wrong"),
    [
        (
            JSON_GBNF,
            ['{"a": [1, 2.5,{"b": true }], "c":null}', "{}", '{ "\u00e9\\u00e9\\n": -1e5 }', '{\n\t"a":[ ]}'],
            ['{"a": nul}', "[]", '{"a"  : 1}', '{"a": 01}', '{"a":  1}', '{"a\n": 1}'],
        ),
        (
            ARITHMETIC_GBNF,
            ["1+2=3\n", "(a1 +22) *b= \n3\n", "1=1\n\n\n2=2\n", "a = b\n"],
            ["1+=3\n", "1+2=3", "1 + 2=3\n"[:-1], "=1\n"],
        ),
        ('root ::= "a" "b" "c" | "ab" "d" | . "\\u00e9" [a-]', ["abc", "abd", "x\u00e9-", "\n\u00e9a"], ["ab", "abx"]),
        ('root ::= [a-z]+ "abc"', ["xabc", "abcabc"], ["abc", "xab"]),
        ('root ::= list\nlist ::= [a-z]+ "." list | "a" "b" | "abc!"', ["ab", "abc!", "x.ab", "ab.abc!"], ["abc", "a"]),
        ('root ::= ("x" root)? | "x"', ["", "x", "xx"], ["y"]),
        ('root ::= [^\\x00-\\U0010FFFE] | "/"{2} # end', ["//", "\U0010ffff"], ["/", "a"]),
    ],
)
def test_grammars_of_llama_cpp(guides: Guides, grammar: str, right: list[str], wrong: list[str]) -> None:
    follows = accepts(guides, "grammar", grammar)
    assert [text for text in right if not follows(text)] == []
    assert [text for text in wrong if follows(text)] == []


@pytest.mark.parametrize(
    ("grammar", "problem"),
    [
        ('root ::= "a', "line 1 ends inside of a text or class"),
        ("root ::= x |\n y", "line 1 needs a rule x, which there is not"),
        ('foo ::= "a"', "line 1 needs a rule root"),
        ('root ::= "a"\nx : "a" ::= ', "line 2 has no ::= behind the name"),
        ('root ::= ("a"', "line 1 has a ( without a )"),
        ("root ::= [b-a]", "from a higher to a lower one"),
        ('root ::= "a" )', "line 1 has ')', which begins nothing"),
        ('root ::= "\\u12"', "has \\u without the hexadecimal number of a character"),
        ('root ::= "a"{3,2}', "repeats from more to less"),
        ('root ::= "a" root', "no text of the rule root comes to an end"),
        ('root ::= "a"\n*', "line 2 has no name of a rule where one must be"),
        (f'root ::= {"(" * 5000}"a"{")" * 5000}', "has too many levels of brackets"),
    ],
)
def test_a_wrong_grammar_of_llama_cpp_is_an_error(guides: Guides, grammar: str, problem: str) -> None:
    with pytest.raises(GuideError, match=f"^option grammar: .*{re.escape(problem)}"):
        guides.new("grammar", grammar)


# A rule is a text, or ("sequence" | "choice", rules), ("repeat", rule), or ("rule", the number of another).
LEAVES = st.sampled_from(["a", "b", "ab", "ba"]) | st.tuples(st.just("rule"), st.integers(0, 2))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(["sequence", "choice"]), st.lists(inner, min_size=1, max_size=3)),
        st.tuples(st.just("repeat"), inner),
    ),
    max_leaves=5,
)


def written(tree: object) -> str:
    if isinstance(tree, str):
        return json.dumps(tree)
    kind, inside = tree  # type: ignore[misc]
    if kind == "rule":
        return ("root", "one", "two")[inside]
    if kind == "repeat":
        return f"({written(inside)})*"
    return f"({(' ' if kind == 'sequence' else ' | ').join(map(written, inside))})"


def texts(rules: list[object], longest: int) -> set[str]:
    """All texts of the first rule up to a length, by iteration from none."""
    known: list[set[str]] = [set() for _ in rules]

    def of(tree: object) -> set[str]:
        if isinstance(tree, str):
            return {tree}
        kind, inside = tree  # type: ignore[misc]
        if kind == "rule":
            return known[inside]
        if kind == "choice":
            return set().union(*map(of, inside))
        parts = [of(inside)] * longest if kind == "repeat" else list(map(of, inside))
        found = {""}
        for part in parts:
            more = {one + other for one in found for other in part if len(one + other) <= longest}
            found = found | more if kind == "repeat" else more
        return found

    while (new := [{text for text in of(tree) if len(text) <= longest} for tree in rules]) != known:
        known = new
    return known[0]


@given(st.lists(TREES, min_size=3, max_size=3))
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_random_grammars_of_llama_cpp_have_the_same_texts(guides: Guides, rules: list[object]) -> None:
    """Also where a word is the beginning of another, where llguidance alone would read the longer one."""
    grammar = "\n".join(f"{name} ::= {written(tree)}" for name, tree in zip(("root", "one", "two"), rules, strict=True))
    expected = texts(rules, 4)
    follows = accepts(guides, "grammar", grammar)
    every = ("".join(letters) for n in range(5) for letters in itertools.product("ab", repeat=n))
    try:
        assert {text for text in every if follows(text)} == expected, gbnf_to_lark(grammar)
    except GuideError as error:
        assert "comes to an end" in str(error)
        assert not expected


def test_a_grammar_without_an_end_does_not_hang(guides: Guides) -> None:
    """A word of letters goes on as long as it can, so that the text behind it never begins."""
    guide = guides.new("grammar", 'start: A B\nA: /a+/\nB: "ab"')
    for _ in range(20):
        assert guide.forced() == []
        mask = guide.allowed()
        assert mask is not None
        (token,) = mask.nonzero()[0].tolist()
        guide.accept(token)
        assert not guide.complete
