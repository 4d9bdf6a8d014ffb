"""Where the characters of a rendered conversation come from, whatever a template does to them.

The messages here have letters of their own, and so has the template: each character tells itself whose it is.
"""

import json
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from jinja2.sandbox import ImmutableSandboxedEnvironment

from edgellm.errors import EdgeLLMError
from edgellm.text.rendering.tracked_text import MESSAGE, TEMPLATE, UNKNOWN
from edgellm.text.template import ChatTemplate

LETTERS = "жЖШш", "λΛΩω"
"""Origins of the first and the second message."""

OWN = TEMPLATE, *(chr(MESSAGE + i) for i in range(2))
LITERALS = ["''", "' '", "'a'", "'Ab'", "'b a'", "'\\n'", "'a\\nb\\n'"]
LEAVES = st.sampled_from(["messages[0].content", "messages[1].content"] * 6 + LITERALS)
KEEPING = [
    *("({0} ~ {1})", "({0} + {1})", "[{0}, {1}] | join({2})", "{0}.join([{1}, {2}])", "({0} * 2)", "{0}[1:]"),
    *("{0}[::-1]", "{0}[:-1]", "({0} | trim)", "{0}.strip({s})", "{0}.lstrip('aж ')", "{0}.rstrip()"),
    *("({0} | upper)", "{0}.lower()", "{0}.title()", "{0}.capitalize()", "{0}.swapcase()", "({0} | replace({s}, {1}))"),
    *("{0}.replace('ж', '')", "{0}.split() | join({1})", "{0}.split({s}) | join({1})", "{0}.rsplit({s}, 1)[0]"),
    *("({0} ~ 'ab').split('b', 1)[-1]", "{0}.partition({s})[2]", "{0}.rpartition({s})[0]", "{0}.removeprefix({s})"),
    *("{0}.removesuffix({s})", "{0}.splitlines() | join", "{0}.splitlines(true)[-1]", "({0} | list | join)"),
    *("({0} | reverse)", "({0} | first)", "({0} | last)", "({0} | string)", "({0} | default({1}, true))"),
    *(
        "('%s%%a%s' % ({0}, {1}))",
        "('a%(x)s' % {{'x': {0}}})",
        "('b%s' | format({0}))",
        "'a{{}}b{{}}'.format({0}, {1})",
    ),
    *("'{{1}}{{0}}{{x}}'.format({0}, {1}, x={2})", "{0}.format({1})", "'{{{{{{}}}}}}'.format({0})[2:-2]"),
    *("({0} if 'ж' in {1} else {2})", "(['b', {0}] | map('upper') | join)", "([{0}, {1}] | sort | join)"),
    *("{{'a': {0}}}.a", "([{0}, {1}] | unique | join({2}))", "f({0}, {1})", "({0} | batch(2) | map('join') | join)"),
]
"""Operations that keep the origin of each character."""

LOSING = [
    *(
        "{0}.encode().decode()",
        "({0} | indent(1, true))",
        "({0} | title)",
        "({0} | wordwrap(2))",
        "({0} | truncate(3))",
    ),
    *("({0} | e)", "({0} | safe)", "({0} | urlize)", "({0} | striptags)", "({0} | tojson)", "([{0}, {1}] | tojson)"),
    *(
        "([{0}] | string)",
        "({0} | pprint)",
        "('%r|%5s' % ({0}, {1}))",
        "'{{!r}}{{:>4}}'.format({0}, {1})",
        "{0}.zfill(5)",
    ),
    *("{0}.center(9, 'a')", "({0} | center)", "{0}.translate({{97: {1}}})", "{0}.casefold()", "({0} | urlencode)"),
    *("({0} | length | string)", "{0}.replace('', {1})", "('%*s' % (4, {0}))", "{0}.expandtabs()", "({0} | xmlattr)"),
    *(
        "{0}.encode().decode().format()",
        "({0} | e | string)",
        "({0} | e).join([{1}])",
        "({0} | safe + {1})",
        "({0} % {1})",
    ),
]
OUTPUTS = [
    *(
        "{{{{ {0} }}}}",
        "{{% set x %}}{{{{ {0} }}}}{{% endset %}}{{{{ x }}}}",
        "{{% for x in {0} %}}{{{{ x }}}}{{% endfor %}}",
    ),
    *(
        "a{{{{ {0} }}}}b",
        "{{% filter upper %}}b{{{{ {0} }}}}{{% endfilter %}}",
        "{{% block x %}}{{{{ {0} }}}}{{% endblock %}}",
    ),
    *("{{% call(x) g({0}) %}}{{{{ x }}}}{{% endcall %}}", "{{% set n = namespace(x={0}) %}}{{{{ n.x }}}}"),
]
LOSING_OUTPUTS = [
    "{{% filter title %}}{{{{ {0} }}}}{{% endfilter %}}",
    "{{% call {0}.encode().decode().format() %}}{{% endcall %}}",
    "{{% autoescape true %}}a{{{{ {0} }}}}{{% endautoescape %}}",
]
MACROS = (
    "{% macro f(x, y='a') %}{{ x }}b{{ y }}{% endmacro %}{% macro g(x) %}{{ caller(x) }}{{ caller('a') }}{% endmacro %}"
)


def expressions(operations: list[str]) -> st.SearchStrategy[str]:
    separators = st.sampled_from([repr(text) for text in ("a", " ", "ж", "жШ", "Ab")])

    def grown(inner: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
        filled = st.tuples(st.sampled_from(operations), inner, inner, inner, separators)
        return filled.map(lambda drawn: f"({drawn[0].format(*drawn[1:4], s=drawn[4])})")

    return st.recursive(LEAVES, grown, max_leaves=5)


def templates(operations: list[str], outputs: list[str]) -> st.SearchStrategy[str]:
    output = st.tuples(st.sampled_from(outputs), expressions(operations)).map(lambda drawn: drawn[0].format(drawn[1]))
    return st.lists(output, min_size=1, max_size=2).map(lambda parts: MACROS + "".join(parts))


messages = st.tuples(*(st.text(f"{letters} \n", min_size=1, max_size=6) for letters in LETTERS)).map(
    lambda contents: [{"role": "user", "content": content} for content in contents]
)


def rendered_by_jinja(source: str, messages: list[dict[str, Any]]) -> str | None:
    """The oracle: Jinja2 with text that is text."""
    environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
    environment.filters["tojson"] = lambda value: json.dumps(value, ensure_ascii=False)
    try:
        return environment.from_string(source).render(messages=messages)
    except Exception:
        return None


def characters(source: str, messages: list[dict[str, Any]]) -> list[tuple[str, str]]:
    """Each character with its origin; nothing where Jinja2 fails, and we do."""
    expected = rendered_by_jinja(source, messages)
    if expected is None:
        with pytest.raises(EdgeLLMError):
            ChatTemplate(source, "", "").render(messages)
        return []
    rendered = ChatTemplate(source, "", "").render(messages)
    assert rendered.text == expected
    origins = "".join(chr(origin) * length for origin, length in rendered.runs)
    return list(zip(rendered.text, origins, strict=True))


@given(templates(KEEPING + LOSING, OUTPUTS + LOSING_OUTPUTS), messages)
@example("{{ messages[0].content.replace('', messages[1].content) }}", [{"content": "ж"}, {"content": "λ"}])
@settings(deadline=None, max_examples=100)
def test_nothing_of_a_message_is_ever_taken_for_the_templates(source: str, messages: list[dict[str, Any]]) -> None:
    for character, origin in characters(source, messages):
        for letters, own in zip(LETTERS, OWN[1:], strict=True):
            assert character not in letters or origin in (own, UNKNOWN)


@given(templates(KEEPING, OUTPUTS), messages)
@settings(deadline=None, max_examples=100)
def test_text_of_the_template_is_known_as_such(source: str, messages: list[dict[str, Any]]) -> None:
    for character, origin in characters(source, messages):
        if not character.isspace():
            whose = next((own for letters, own in zip(LETTERS, OWN[1:], strict=True) if character in letters), TEMPLATE)
            assert origin == whose
