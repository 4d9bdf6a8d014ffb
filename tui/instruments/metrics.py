"""The metrics in the panel, each with an explanation for newcomers."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its `name` in the code, its label on the screen (empty for a bar), and its explanation.

    An `optional` one has a row only while it is known.
    """

    name: str
    label: str
    meaning: str
    optional: bool = False


SECTIONS: dict[str, tuple[Metric, ...]] = {
    "": (
        Metric("model", "", "The model that answers."),
        Metric(
            "phase",
            "",
            "What the model does: loading, reading the prompt (prefill), or writing the reply (decode).",
        ),
    ),
    "Prompt": (
        Metric("progress", "", "The share of the prompt that was read. A model reads all of it before it writes."),
        Metric("read", "read", "Prefill: tokens of the prompt read so far. A token is a word or a part of one."),
        Metric("left", "left", "The time to read the rest of the prompt, at the speed so far."),
        Metric("prefill", "prefill", "Tokens of the prompt read per second, without reused ones."),
        Metric("ttft", "TTFT", "Time to first token: from sending the message to the first token of the reply."),
        Metric("reused", "reused", "Tokens of the prompt that the prefix cache already had: they cost no time."),
        Metric(
            "diverged",
            "diverged at",
            "The first prompt token that differs from the cache: reading starts there.",
        ),
        Metric("around", "", "The prompt around the first token that differs from the cache."),
    ),
    "Reply": (
        Metric("spark", "", "The time of each of the last tokens: a level line is steady, a peak a slow token."),
        Metric("now", "now", "Tokens written per second, over the last tokens."),
        Metric("mean", "mean", "Tokens written per second, over the whole reply."),
        Metric("itl", "ITL p50 / p95", "Inter-token latency: half of the tokens took at most p50, 95 % at most p95."),
        Metric(
            "mbu",
            "MBU",
            "Memory bandwidth utilization: the whole model is read from memory for each token. At 1.00 it is read as "
            "fast as this memory allows, and only a smaller model would be faster.",
        ),
        Metric(
            "drafter",
            "drafter",
            "The smaller model, or the head, that guesses the next tokens; /set draft chooses it.",
            optional=True,
        ),
        Metric(
            "drafts",
            "drafts",
            "Tokens that were computed before they were certain: the share that was right, the tokens written for each "
            "reading of the model, and what guessed most of them.",
            optional=True,
        ),
        Metric(
            "guided",
            "guide excluded",
            "With /schema: the share of the model's own choice that the schema excluded, on average and at the worst "
            "token. A high one says that the model meant to write something else.",
            optional=True,
        ),
    ),
    "Context": (
        Metric("gauge", "", "How full the context is: the text that the model sees at once, and remembers."),
        Metric(
            "context", "used", "Tokens of instructions, conversation and reply, of the most that there is room for."
        ),
        Metric("overflow", "when full", "What happens when the context is full; /set overflow chooses it."),
        Metric("dropped", "dropped", "Tokens that were left out of the last reply's context: dimmed above."),
    ),
    "Machine": (
        Metric("threads", "threads", "The number of CPU cores that compute."),
        Metric("gpu", "blocks on the GPU", "Layers of the model that the GPU computes, of all layers."),
        Metric("weights", "model in memory", "The part of the model's file that is in memory; the rest is on disk."),
        Metric("process", "memory used", "Memory of this program, with the part of the model's file that it has read."),
        Metric("free", "memory free", "Memory of this machine that is available to programs."),
    ),
}
"""The metrics by section, from top to bottom."""


def glossary(*names: str) -> str:
    """Explanations of some metrics, one line each."""
    metrics = {metric.name: metric for metrics in SECTIONS.values() for metric in metrics}
    return "\n".join(f"{metrics[name].label}: {metrics[name].meaning}" for name in names)
