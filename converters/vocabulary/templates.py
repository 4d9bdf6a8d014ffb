"""The chat templates of a checkpoint: a default one, and named ones."""

import re
from collections.abc import Iterator

from converters.checkpoint.files import read_text
from converters.tensors import MetadataValue
from converters.vocabulary.files import CheckpointFiles, JsonObject, read

_FOLDER = "additional_chat_templates"


def chat_templates(files: CheckpointFiles, settings: JsonObject | None) -> dict[str, MetadataValue]:
    """`tokenizer.chat_template` and, for named templates, `tokenizer.chat_template.NAME` and `chat_templates`.

    As in transformers, chat_template.jinja has precedence over tokenizer_config.json, which may be older; without
    both, chat_template.json is read. Raises ModelFileError for a template that is no text.
    """
    found = dict(_files(files))
    if "default" not in found:  # templates in the folder are additional ones
        found = (_named(settings) if settings else {}) | found
    if not found and (document := read(files, "chat_template.json")):
        found = _named(document)
    others = {re.sub("[^A-Za-z0-9]", "_", name): text for name, text in found.items() if name and name != "default"}
    made = {f"tokenizer.chat_template.{name}": MetadataValue("str", text) for name, text in others.items()}
    if others:
        made["tokenizer.chat_templates"] = MetadataValue("str", list(others))
    if "default" in found:
        made["tokenizer.chat_template"] = MetadataValue("str", found["default"])
    return made


def _named(document: JsonObject) -> dict[str, str]:
    """The templates by name in the entry `chat_template`: a text, or a list of objects with a name and a template."""
    if not isinstance(document.entries.get("chat_template"), list):
        text = document.text("chat_template")
        return {} if text is None else {"default": text}
    choices = ((entry.text("name"), entry.text("template")) for entry in document.children("chat_template"))
    return {name: text for name, text in choices if name and text is not None}


def _files(files: CheckpointFiles) -> Iterator[tuple[str, str]]:
    """Names and texts of templates in their own files."""
    text = files.text("chat_template.jinja")
    if text is not None:
        yield "default", text
    for path in sorted((files.path / _FOLDER).glob("*.jinja")):
        more = read_text(path.parent, path.name)
        if more is not None:
            yield path.stem, more
