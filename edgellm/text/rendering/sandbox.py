"""The Jinja2 environment of chat templates: that of Hugging Face, with text that tracks its origin.

Jinja2's sandbox keeps a template from Python's internals; the limits of the process bound its time and memory.
"""

from collections.abc import Callable, Iterable
from datetime import datetime
from functools import wraps
from string import Formatter
from typing import Any, NoReturn, cast

from jinja2 import TemplateError, nodes, pass_context, pass_environment
from jinja2.ext import Extension, loopcontrols
from jinja2.filters import make_attrgetter
from jinja2.parser import Parser
from jinja2.runtime import Context
from jinja2.sandbox import ImmutableSandboxedEnvironment, SandboxedFormatter
from jinja2.visitor import NodeTransformer

from edgellm.text.rendering.formats import braces, tojson
from edgellm.text.rendering.tracked_text import TEMPLATE, TrackedText, as_tracked, common_origin
from edgellm.text.utf8 import replace_surrogates


class Sandbox(ImmutableSandboxedEnvironment):
    """The environment of one template. `literals` are the texts that the template contains."""

    concat = staticmethod(lambda pieces: TrackedText().join(pieces))

    def __init__(self) -> None:
        super().__init__(trim_blocks=True, lstrip_blocks=True, extensions=[loopcontrols, _Generation])
        self.finalize = _finalized
        self.literals: list[TrackedText] = []
        self.filters = {name: _with_origin(function) for name, function in self.filters.items()}
        self.filters |= {"join": _join, "tojson": tojson}
        self.globals |= {"raise_exception": _refuse, "strftime_now": _strftime_now}
        del self.globals["lipsum"]

    @property
    def words(self) -> frozenset[str]:
        """The literals that are words, such as the names of roles."""
        return frozenset(text for text in self.literals if text.replace("-", "_").isidentifier())

    def wrap_str_format(self, value: Any) -> Callable[..., str] | None:
        """As in Jinja2, with origins in the result."""
        wrapped = super().wrap_str_format(value)
        layout = getattr(value, "__self__", None)
        if wrapped is None or not isinstance(layout, TrackedText):
            return wrapped
        formatter = cast(Formatter, SandboxedFormatter(self))
        mapped = value.__name__ == "format_map"

        @wraps(wrapped)
        def formatted(*args: Any, **names: Any) -> TrackedText:
            text = wrapped(*args, **names)
            return braces(layout, text, formatter, *(((), args[0]) if mapped else (args, names)))

        return formatted

    def _parse(self, source: str, name: str | None, filename: str | None) -> nodes.Template:
        tree: nodes.Template = _Literals(self.literals).visit(super()._parse(source, name, filename))
        return tree


class _Literals(NodeTransformer):
    """Moves all literals of a template to a list, and replaces each by an access to that list."""

    def __init__(self, literals: list[TrackedText]) -> None:
        self._literals = literals

    def visit_Const(self, node: nodes.Const) -> nodes.Expr:  # noqa: N802
        return self._literal(node.value) if isinstance(node.value, str) else node

    def visit_TemplateData(self, node: nodes.TemplateData) -> nodes.Expr:  # noqa: N802
        return nodes.MarkSafeIfAutoescape(self._literal(node.data))

    def visit_Concat(self, node: nodes.Concat) -> nodes.Expr:  # noqa: N802
        self.generic_visit(node)
        return nodes.Filter(nodes.List(node.nodes), "join", [], [], None, None)

    def _literal(self, text: str) -> nodes.Expr:
        self._literals.append(TrackedText(replace_surrogates(text), TEMPLATE))  # an escape may have made one
        place = nodes.Const(len(self._literals) - 1)
        return nodes.Getitem(nodes.EnvironmentAttribute("literals"), place, "load")


class _Generation(Extension):
    """`{% generation %}`, which marks replies for training; rendering ignores it."""

    tags = {"generation"}  # noqa: RUF012

    def parse(self, parser: Parser) -> list[nodes.Node]:
        """Returns the body alone."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def _with_origin(function: Callable[..., Any]) -> Callable[..., Any]:
    """A filter whose result has the common origin of its arguments."""

    @wraps(function)
    def filtered(*args: Any, **options: Any) -> Any:
        made = function(*args, **options)
        if type(made) is not str:
            return made
        hidden = hasattr(function, "jinja_pass_arg")
        return TrackedText(made, common_origin(*args[hidden:], *options.values()))

    return filtered


@pass_context  # there is no context while a template is compiled, so Jinja2 renders nothing then
def _finalized(context: Context, value: object) -> object:
    return value if hasattr(value, "__html__") else as_tracked(value)


@pass_environment
def _join(environment: Sandbox, value: Iterable[Any], d: Any = "", attribute: str | int | None = None) -> TrackedText:
    items = value if attribute is None else map(make_attrgetter(environment, attribute), value)
    return as_tracked(d).join(map(as_tracked, items))


def _refuse(message: object) -> NoReturn:
    raise TemplateError(str(message))


def _strftime_now(layout: str) -> TrackedText:
    return TrackedText(datetime.now().strftime(layout), common_origin(layout))
