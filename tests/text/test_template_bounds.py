"""Templates that would run for ever or fill the memory: each is cut off, with one line, and harms nothing else."""

import subprocess
import sys

import pytest

from edgellm.errors import EdgeLLMError
from edgellm.text.template import ChatTemplate
from support import ROOT

USER = [{"role": "user", "content": "Hi"}]
LONG, LARGE, DEEP = "it takes too long", "it takes too much memory", "maximum recursion depth"
GROWING = "{%% set n = namespace(x=%s) %%}{%% for i in range(99) %%}{%% set n.x = %s %%}{%% endfor %%}"


@pytest.mark.parametrize(
    ("source", "why"),
    [
        ("{% set x = 'a' * 4000000 %}{{ (x | int(0, 16)) // (x[1:2000000] | int(0, 16)) > 1 }}", LONG),  # holds the GIL
        ("{{ " + "~".join(["x"] * 60_000) + " }}", LONG),  # to compile
        (GROWING % ("[1]", "[n.x, n.x]") + "{{ n.x }}", LONG),
        ("{% block a %}{{ self.a() }}{{ self.a() }}{% endblock %}", DEEP),
        ("{% for a in [1] recursive %}{{ loop([1, 1]) }}{% endfor %}", DEEP),
        ("{{ (1).to_bytes(4000000000, 'big') | length }}", LARGE),
        ("{{ '{:{w}}'.format(1, w='999999999') }}", LARGE),
        ("{{ '%*d' % (1999999999, 1) }}", LARGE),
        ("{{ 'a' * 10000000000 }}", LARGE),
        ("{{ [1] * 10000000000 }}", LARGE),
        ("{{ '%999999999d' | format(1) }}", LARGE),
        ("{{ 'x' | center(10000000000) }}", LARGE),
        ("{{ 'x' | indent(10000000000, true) }}", LARGE),
        (GROWING % ("[1]", "n.x + n.x"), LARGE),
        (GROWING % ("'ab'", "n.x ~ n.x"), LARGE),
        ("{% macro f(x) %}{{ x }}{{ x }}{% endmacro %}{{ " + "f(" * 60 + "'a'" + ")" * 60 + " }}", LARGE),
        ("{% for i in range(100000) %}" + "y" * 100_000 + "{% endfor %}", LARGE),
        ("{{ range(1000000000) | list }}", "Range too big"),
        ("{{ 'a' * 2000000 }}", "it writes too much"),
    ],
)
def test_no_template_runs_for_ever_or_fills_the_memory(source: str, why: str) -> None:
    with pytest.raises(EdgeLLMError) as error:
        ChatTemplate(source, "", "").render(USER)
    assert why in str(error.value) and "\n" not in str(error.value)


@pytest.mark.parametrize(
    "source", [GROWING % ("[1]", "[n.x, n.x]"), "{% set n = namespace() %}{% set n.n = n %}{{ n }}"]
)
def test_large_limits_without_large_output_are_allowed(source: str) -> None:
    ChatTemplate(source, "", "").render(USER)


def test_a_template_serves_again_after_it_was_cut_off() -> None:
    template = ChatTemplate("{% for i in range(n) %}{% for j in range(n) %}{% endfor %}{% endfor %}ok", "", "")
    with pytest.raises(EdgeLLMError, match="too long"):
        template.render(USER, n=50_000)
    assert template.render(USER, n=90).text == template.render(USER, n=90).text == "ok"


@pytest.mark.skipif(sys.platform != "linux", reason="the kernel limits the memory on Linux alone")
@pytest.mark.parametrize(
    ("source", "most"),
    [
        (GROWING % ("[1]", "n.x + n.x"), 200),
        (GROWING % ("'ab'", "n.x + n.x"), 200),
        ("{{ ('a' * 900_000_000) | length }}", 100),  # of what is too much nothing is given
    ],
)
def test_less_than_200_mb_are_taken(source: str, most: int) -> None:
    code = f"""
import resource
from edgellm.errors import EdgeLLMError
from edgellm.text.rendering.renderer import renderer
from edgellm.text.template import ChatTemplate
try:
    ChatTemplate({source!r}, "", "").render([])
except EdgeLLMError as error:
    renderer.close()
    print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss >> 10)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    assert int(done.stdout) < most


def test_a_long_conversation_may_take_and_write_more() -> None:
    long = [{"role": "user", "content": "é" * 3_000_000}]
    assert ChatTemplate("<{{ messages[0].content | trim }}>", "", "").render(long).text == f"<{'é' * 3_000_000}>"
