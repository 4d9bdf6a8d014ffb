"""Patterns of ECMA-262: which texts they match, and what is refused."""

import json
import re

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from edgellm.errors import GuideError
from edgellm.guides.patterns.ecma import PatternError, whole
from edgellm.guides.patterns.text import matches
from support.guided_walk import Guides, write_json


@pytest.mark.parametrize(
    ("pattern", "right", "wrong"),
    [
        ("a", ["a", "xay"], ["", "b"]),
        ("^a.c$", ["abc", "a c"], ["a\nc", "a\rc", "a\u2028c", "abcd"]),
        ("^a|b$", ["ax", "xb"], ["xa", "bx"]),
        ("(^a|b)c", ["acx", "xbc"], ["xac"]),
        ("^(?:a|b$)", ["ax", "b"], ["bx"]),
        ("^[a-c\\d-]+$", ["a1-", "c"], ["d", "٣"]),
        ("^[^a]$", ["b", "\n", "😀"], ["a", "", "bb"]),
        ("^[]$|^[^]$", ["\n", "x"], ["", "xx"]),
        ("^[&&[a]$", ["&", "[", "a"], ["b", "&&"]),
        ("^\\w\\W\\d\\D\\s\\S$", ["a-1a b"], ["aé1a b", "a-٣a b", "a-1a\u0085b"]),
        ("^a{2}b{1,}c{0,2}d{3,4}$", ["aabddd", "aabbccdddd"], ["abddd", "aabcccddd"]),
        ("^a*?b+?c??$", ["b", "aabbc"], ["a", "bcc"]),
        ("^(?<name>x)(y|)$", ["x", "xy"], ["y"]),
        ("^\\u0061\\x62\\u{1F600}\\uD83D\\uDE01\\cA\\0\\/\\.$", ["ab😀😁\x01\0/."], ["ab"]),
        ("^\\p{Lu}\\P{L}[\\p{Nd}_]$", ["É1٣", "A-_"], ["é1٣", "Aa_"]),
        ("^[\\b]$", ["\b"], ["b"]),
        ("^{a}$|^b{$", ["{a}", "b{"], ["a"]),
        ("", ["", "anything"], []),
    ],
)
def test_texts_that_a_pattern_matches(pattern: str, right: list[str], wrong: list[str]) -> None:
    tree = whole(pattern)
    assert [text for text in right if not matches(tree, text)] == []
    assert [text for text in wrong if matches(tree, text)] == []


@pytest.mark.parametrize(
    ("pattern", "problem"),
    [
        ("a(?=b)", "looks ahead or behind, or sets a flag, which no grammar can, at character 2"),
        ("(?<!a)b", "looks ahead or behind"),
        ("(?i:a)", "sets a flag"),
        ("(a)\\1", "has \\1, which no grammar can match, at character 4"),
        ("\\bword", "has \\b"),
        ("a^b", "has ^ or $ inside"),
        ("(a$)*", "has ^ or $ inside"),
        (f"({'|'.join(['^'] * 20)})x({'|'.join(['$'] * 20)})", "more than 100 alternatives between ^ and $"),
        ("(a", "has a ( without a ) at character 1"),
        ("a)", "has a ) without a ( at character 2"),
        ("[a", "has a [ without a ] at character 1"),
        ("[z-a]", "from no lower to a higher one at character 2"),
        ("[\\d-z]", "from no lower to a higher one"),
        ("*a", "repeats nothing at character 1"),
        ("a**", "repeats what cannot be repeated at character 2"),
        ("a{3,2}", "repeats from more to less"),
        ("a{9999999}", "repeats more than 100,000 times"),
        ("\\", "ends too early"),
        ("\\u12", "ends too early"),
        ("\\uD800", "has a code of no character at character 1"),
        ("\\xZZ", "no hexadecimal number"),
        ("\\p{Script=Greek}", "a general category"),
    ],
)
def test_patterns_that_no_guide_follows(pattern: str, problem: str) -> None:
    with pytest.raises(PatternError, match=re.escape(problem)):
        whole(pattern)


ATOMS = st.sampled_from(
    [
        "a",
        "b",
        '"',
        "\\\\",
        "\\n",
        "[ab]",
        "[^a]",
        ".",
        "\\d",
        "\\s",
        "(?:a|b)",
        "(?:|ab)",
        "é",
        "\\x01",
        '[^"\\\\]',
        "[\\0-\\x20]",
    ]
)
ITEMS = st.builds("{}{}".format, ATOMS, st.sampled_from(["", "", "*", "+", "?", "{2}", "{1,2}"]))
BRANCHES = st.builds(
    "{}{}{}".format, st.sampled_from(["", "^"]), st.lists(ITEMS, max_size=3).map("".join), st.sampled_from(["", "$"])
)
PATTERNS = st.lists(BRANCHES, min_size=1, max_size=2).map("|".join)
TEXTS = st.text('ab"\\\n1 é\x01\x7f', max_size=5)


@given(PATTERNS, TEXTS)
@settings(max_examples=500, deadline=None)
def test_a_pattern_matches_as_in_python(pattern: str, text: str) -> None:
    """Where the dialects agree: Python's `$` also stands before a line end."""
    found = re.search(re.sub(r"\$", r"\\Z", pattern), text) is not None
    assert matches(whole(pattern), text) == found


@given(PATTERNS, TEXTS)
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_string_is_allowed_if_it_matches(guides: Guides, pattern: str, text: str) -> None:
    """Also where classes have all control characters, or no others. Replies do not contain those without a letter."""
    schema = json.dumps({"type": "string", "pattern": pattern})
    try:
        guide = guides.new("json_schema", schema)
    except GuideError as error:
        assert "Regex is empty" in str(error)
        assert not matches(whole(pattern), text) or set(text) & {"\x01", "\x7f"}
        return
    is_written = not set(text) & {"\x01", "\x7f"}
    assert guides.accepts(guide, write_json(text)) == (matches(whole(pattern), text) and is_written)
