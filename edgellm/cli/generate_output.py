"""What `edgellm generate` writes: tokens or JSON to stdout, notes to stderr."""

import json
from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from edgellm.errors import AnswerError, EdgeLLMError, IncompleteOutputError
from edgellm.fmt import printable
from edgellm.terminal.streams import write

if TYPE_CHECKING:
    from edgellm.generate.generation import Generation
    from edgellm.generate.results import Completion, Token
    from edgellm.model import Model
    from edgellm.remote.reply import RemoteReply, ReplyPiece
    from edgellm.tools.calls import ToolCall


class GenerateOutput(NamedTuple):
    """The format of the output, and how its parts are written. `tools`: there are tools to call."""

    as_json: bool
    jsonl: bool
    quiet: bool
    raw: bool
    tools: bool = False

    def token(self, token: "Token | ReplyPiece") -> None:
        """Write a token to stdout; of a reply that is held to a form only its answer, so that stdout conforms."""
        if self.jsonl:
            fields = {name: getattr(token, name) for name in ("id", "text", "logprob", "finish_reason")}
            if token.top_logprobs:
                fields["top_logprobs"] = list(map(asdict, token.top_logprobs))
            if token.tool_calls:
                fields["tool_calls"] = list(map(_in_openai_shape, token.tool_calls))
            click.echo(json.dumps(fields | {"stats": asdict(token.stats)}))
        elif not self.as_json and not token.thinking:
            write(token.text, self.raw)

    def text(self, text: str) -> None:
        """Write the text of a whole reply to stdout."""
        if not self.as_json:
            write(text, self.raw)

    def end(self, generation: "Generation | RemoteReply", chat: bool) -> None:
        """Write what follows the tokens: the JSON object, or the end of the last line."""
        if self.as_json:
            reply = {name: value for name, value in asdict(_completion(generation)).items() if value is not None}
            calls, broken = list(map(_in_openai_shape, generation.tool_calls)), reply.pop("broken_calls")
            reply.pop("tool_calls")
            if self.tools:
                reply |= {"tool_calls": calls, "broken_calls": broken}
            click.echo(json.dumps(reply | {"chat": chat}))
        else:
            self.end_line(generation)
            for call in () if self.jsonl else generation.tool_calls:
                write(json.dumps({"name": call.name, "arguments": dict(call.arguments)}) + "\n")

    def end_line(self, generation: "Generation | RemoteReply") -> None:
        """End the last line of text, if there is one."""
        text = generation.text if generation.answer is None else generation.answer
        if not (self.as_json or self.jsonl) and text and not text.endswith("\n"):
            write("\n")

    def say(self, *lines: object) -> None:
        """Write lines to stderr."""
        for line in () if self.quiet else lines:
            click.echo(line, err=True)


def _completion(generation: "Generation | RemoteReply") -> "Completion":
    """The reply, also one that was cut off before it conforms, and one whose value Python does not read."""
    try:
        return generation.completion()
    except (AnswerError, IncompleteOutputError) as error:
        found: Completion = error.completion
        return found


def _in_openai_shape(call: "ToolCall") -> dict[str, Any]:
    """A call as OpenAI's API has it: the arguments are JSON text."""
    function = {"name": call.name, "arguments": json.dumps(dict(call.arguments), ensure_ascii=False)}
    return {"id": call.id, "type": "function", "function": function}


def check_calls(generation: "Generation | RemoteReply") -> None:
    """Raises EdgeLLMError if a call of a tool does not parse."""
    for broken in generation.broken_calls:
        shown = printable(broken.text, 200)
        raise EdgeLLMError(f"the reply has a call that does not parse: {printable(broken.problem, 200)}: {shown}")


def template_notes(model: "Model", text: str) -> Iterator[str]:
    """A note if the prompt seems to be in a chat template already."""
    found = [control for control in model.tokenizer.control_texts if len(control) > 1 and control in text]
    if found:
        what = f"{printable(found[0])}, which is plain text in a message"
        yield f"edgellm: note: the prompt has {what}; --raw --special reads it as a token"


def notes(generation: "Generation", ctx: int, limit: int | None, chat: bool) -> Iterator[str]:
    """Notes about a generation that has ended."""
    if generation.finish_reason == "length" and len(generation.tokens) != limit:
        advice = "; --overflow window lets a reply go on" if chat else ""
        yield f"edgellm: note: the context of {ctx:,} tokens is full{advice}"
    if generation.dropped_tokens:
        left_out = f"{generation.dropped_tokens:,} tokens did not fit the context of {ctx:,}"
        yield f"edgellm: note: {left_out} and were dropped"


def server_notes(reply: "RemoteReply", limit: int | None) -> Iterator[str]:
    """Notes about a reply of a server that has ended."""
    if reply.finish_reason == "length" and limit is None:
        yield "edgellm: note: the server's limit of tokens cut off the reply; -n N asks for more"
    if reply.stats.estimated and reply.stats.generated_tokens:
        yield "edgellm: note: the server told no number of tokens: the figures count pieces of text"
