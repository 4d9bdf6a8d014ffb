"""The options that hold a reply to a form: a JSON schema, a regular expression, choices, a grammar."""

import click

from edgellm.cli.options import in_order, option_of, utf8
from edgellm.cli.text_file import read_text
from edgellm.errors import OptionError
from edgellm.fmt import printable
from edgellm.options import GenerationOptions
from edgellm.text.json_values import parsed_json

_EXAMPLE = '{"type": "object"}'


def _schema(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    """A JSON schema: itself if it begins as one, else that of a file. Raises EdgeLLMError, also for other text."""
    if (text := utf8(context, option, given)) is None:
        return None
    is_schema = text.lstrip().startswith("{") or text.strip() in ("true", "false")
    origin = "--json-schema" if is_schema else f"--json-schema: {printable(text, 400)}"
    schema = text if is_schema else read_text(text, origin.partition(":")[0])
    if not isinstance(parsed_json(schema, origin, "give a JSON schema"), dict | bool):
        raise OptionError(f"{origin} has no JSON schema; give one, such as {_EXAMPLE}")
    return schema


def _grammar(context: click.Context, option: click.Parameter, given: str | None) -> str | None:
    return None if given is None else read_text(given, "--grammar")


def check_form(options: GenerationOptions) -> None:
    """Raises GuideError for a schema, regex or grammar that is wrong whatever the model."""
    if options.form:
        from edgellm.guides.compile import check  # these import numpy and llguidance
        from edgellm.guides.spec import spec_of

        if spec := spec_of(options):
            check(spec)


guide_options = in_order(
    option_of(GenerationOptions, "json_schema", callback=_schema),
    option_of(GenerationOptions, "regex", callback=utf8),
    option_of(
        GenerationOptions,
        "choices",
        "choices",
        "--choice",
        callback=lambda context, option, given: given or None,
        metavar="TEXT",
        multiple=True,
        more="; repeatable",
    ),
    option_of(GenerationOptions, "grammar", callback=_grammar),
    option_of(GenerationOptions, "partial"),
    option_of(GenerationOptions, "think_max"),
)
"""Adds the options that hold a reply to a form, and that limit its thinking."""
