"""The Jinja2 environment that chat templates run in: what Hugging Face gives them, within bounds.

A template comes with a model file and is as untrusted as the rest. Jinja2's sandbox keeps it from Python;
the bounds here keep it from filling the memory or running for ever. They rest on three facts: all that grows
does so by a loop, a macro, an operator, a call or a filter; values grow from step to step only by being
assigned or passed on; and between two steps a template does work in proportion to its own length and the
largest value. So steps are counted and timed, and values measured.
"""

import json
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from functools import wraps
from typing import Any, cast

from jinja2 import nodes
from jinja2.ext import Extension, loopcontrols
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

from edgellm.text.bounds import AMPLIFYING, LARGEST, bounded, check_growth, collected, limit, measure, refuse

STEPS, SECONDS = 1_000_000, 5.0
_WIDEST_NUMBER = 1024  # bits


class Sandbox(ImmutableSandboxedEnvironment):
    """One environment per template; `start` opens a rendering. Everything refused is a TemplateError."""

    intercepted_binops = frozenset(["+", "*", "**", "%"])

    def __init__(self) -> None:
        super().__init__(
            trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation], finalize=self._emit
        )
        self.optimized = False  # a constant expression is no safer at compile time
        self.filters["tojson"] = _tojson
        self.filters = {name: self._guarded(name, function) for name, function in self.filters.items()}
        self.filters |= {"bounded": bounded, "step": self._step}
        self.globals |= {"raise_exception": refuse, "strftime_now": _strftime_now}
        del self.globals["lipsum"]
        self.start()

    def start(self) -> None:
        """Begin counting anew."""
        self._steps = self._emitted = 0
        self._deadline = time.monotonic() + SECONDS

    def call(self, context: Context, obj: Any, *args: Any, **kwargs: Any) -> Any:
        """Call on behalf of the template, with arguments of bounded size."""
        name = getattr(obj, "__name__", "")
        if name in AMPLIFYING:
            method = getattr(obj, "__wrapped__", obj)  # the sandbox wraps str.format
            check_growth(name, getattr(method, "__self__", ""), *args, *kwargs.values())
        else:
            bounded([args, kwargs])
        return super().call(context, obj, *args, **kwargs)

    def call_binop(self, context: Context, operator: str, left: Any, right: Any) -> Any:
        """Calculate `left operator right` after a look at how large it gets."""
        if isinstance(left, int) and isinstance(right, int):
            power = operator == "**"
            bits = left.bit_length() * abs(right) if power else left.bit_length() + right.bit_length()
            limit(bits, _WIDEST_NUMBER, "calculates with huge numbers")
        elif operator == "+":
            bounded([left, right])
        elif isinstance(left, str) or isinstance(right, str) or operator == "*":
            check_growth("format" if operator == "%" else operator, left, right)
        return super().call_binop(context, operator, left, right)

    def _guarded(self, name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        """The filter as a step that cannot blow anything up, and gives a list where it gave an iterator."""
        hidden = hasattr(function, "jinja_pass_arg")

        @wraps(function)
        def guarded(*args: Any, **kwargs: Any) -> Any:
            self._step(0)
            if name in AMPLIFYING:
                check_growth(name, *args[hidden:], *kwargs.values())
            result = function(*args, **kwargs)
            return collected(result) if isinstance(result, Iterator) else result

        return guarded

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Bounds().visit(super()._parse(source, name, filename))
        return tree

    def _emit(self, value: object) -> object:
        """Count what goes to any output, that of macros and blocks too."""
        self._emitted += measure(value)
        limit(self._emitted, LARGEST, "writes too much")
        return value

    def _step(self, written: int) -> bool:
        """Count one turn of a loop or macro, which writes that much constant text. Always true."""
        self._steps += 1
        self._emitted += written
        limit(self._steps, STEPS, "takes too many steps")
        limit(self._emitted, LARGEST, "writes too much")
        limit(time.monotonic(), self._deadline, "takes too long")
        return True


class _Bounds(NodeTransformer):
    """Puts the `step` and `bounded` filters where loops turn and values are kept."""

    def visit_For(self, node: nodes.For) -> nodes.For:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, _step(node))
        if node.test:
            node.test = nodes.And(_filter(nodes.Const(0), "step"), node.test)
        return node

    def visit_Macro(self, node: nodes.Macro | nodes.CallBlock) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        node.body.insert(0, _step(node))
        return node

    visit_CallBlock = visit_Macro  # noqa: N815

    def visit_Assign(self, node: nodes.Assign) -> nodes.Assign:  # noqa: N802
        self.generic_visit(node)
        node.node = _filter(node.node, "bounded")
        return node

    def visit_With(self, node: nodes.With) -> nodes.With:  # noqa: N802
        self.generic_visit(node)
        node.values = [_filter(value, "bounded") for value in node.values]
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return _filter(nodes.List(node.nodes), "join")


class _Generation(Extension):
    """`{% generation %}`, with which training code marks replies; rendering takes no notice."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """The body alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _filter(node: nodes.Node, name: str) -> nodes.Filter:
    return nodes.Filter(cast(nodes.Expr, node), name, [], [], None, None)


def _step(node: nodes.Node) -> nodes.ExprStmt:
    written = sum(len(data.data) for data in node.find_all(nodes.TemplateData))
    return nodes.ExprStmt(_filter(nodes.Const(written), "step"))


def _tojson(value: object, **options: Any) -> str:
    """Plain JSON as Hugging Face writes it; Jinja2's own escapes HTML."""
    return json.dumps(value, **({"ensure_ascii": False} | options))


def _strftime_now(layout: str) -> str:
    return datetime.now().strftime(layout)
