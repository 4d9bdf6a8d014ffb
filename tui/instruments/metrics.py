"""The rows of the panel, and one line on each for somebody who meets the word for the first time."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A row: its `name` in the code, its label on the screen (empty for a bar), and what it means."""

    name: str
    label: str
    meaning: str


SECTIONS: dict[str, tuple[Metric, ...]] = {
    "": (
        Metric("model", "", "The model that answers."),
        Metric("phase", "", "What it does now: it loads, reads the prompt (prefill), or writes the reply (decode)."),
    ),
    "Prompt": (
        Metric("progress", "", "How much of the prompt has been read. A model reads all of it before it can write."),
        Metric("read", "read", "Prefill: tokens of the prompt read so far. A token is a word or a part of one."),
        Metric("left", "left", "How long reading the rest of the prompt will take, at the speed so far."),
        Metric("prefill", "prefill", "Tokens of the prompt read per second, without the reused ones."),
        Metric("ttft", "TTFT", "Time to first token: from sending the message to the first token of the reply."),
        Metric("reused", "reused", "Tokens of the prompt that were in the cache from before: they cost no time."),
        Metric("diverged", "diverged at", "Where the prompt stops being what was in the cache: the rest is read."),
        Metric("around", "", "The prompt around the place where it stops being what was in the cache."),
    ),
    "Reply": (
        Metric("spark", "", "The time that each of the last tokens took: level is steady, a peak is a late token."),
        Metric("now", "now", "Tokens written per second, over the last ones."),
        Metric("mean", "mean", "Tokens written per second, over the whole reply."),
        Metric("itl", "ITL p50 / p95", "Inter-token latency: half of the tokens took at most p50, 95 % at most p95."),
        Metric(
            "mbu",
            "MBU",
            "Memory bandwidth utilization: each token takes reading the whole model from memory. At 1.00 it is read as "
            "fast as this memory can, and only a smaller model would be faster.",
        ),
    ),
    "Context": (
        Metric("gauge", "", "How full the context is: all that the model sees at once, and remembers."),
        Metric(
            "context", "used", "Tokens of instructions, conversation and reply, of the most that there is room for."
        ),
        Metric("overflow", "when full", "What is done when there is no room for more; /set overflow chooses it."),
        Metric("dropped", "dropped", "Tokens that the last reply does not see for want of room: dimmed above."),
    ),
    "Machine": (
        Metric("threads", "threads", "How many of the processor's cores compute."),
        Metric("gpu", "blocks on the GPU", "Layers of the model that the graphics processor computes, of all."),
        Metric(
            "process", "memory used", "Memory that this program holds, what it has read of the model's file included."
        ),
        Metric("free", "memory free", "Memory that this machine could still give to programs."),
    ),
}
"""What the panel shows, from top to bottom."""


def glossary(*names: str) -> str:
    """Some entries explained, a line for each."""
    entries = {entry.name: entry for entries in SECTIONS.values() for entry in entries}
    return "\n".join(f"{entries[name].label}: {entries[name].meaning}" for name in names)
