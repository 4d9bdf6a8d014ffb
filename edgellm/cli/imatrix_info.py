"""What `edgellm info` shows of an importance matrix."""

from collections.abc import Iterator

from converters.importance.experts import expert_counts
from edgellm.fmt import counted, printable, size, table
from edgellm.gguf.imatrix import Imatrix, ImatrixEntry

_FEWEST = 5
"""Experts that are shown: those that saw the fewest tokens."""


def as_json(found: Imatrix, tensors: bool) -> dict[str, object]:
    """The facts as JSON; `fewest_tokens` lists the experts that saw the fewest tokens."""
    facts: dict[str, object] = {
        "kind": "imatrix",
        "files": [str(found.path)],
        "bytes": found.path.stat().st_size,
        "datasets": list(found.datasets),
        "chunks": found.chunks,
        "chunk_size": found.chunk_size,
        "entries": len(found.entries),
        "fewest_tokens": [each._asdict() for each in expert_counts(found)[:_FEWEST]],
    }
    if tensors:
        facts["tensors"] = [
            {"name": name, "values": entry.sums.size, "tokens": entry.counts.tolist()}
            for name, entry in found.entries.items()
        ]
    return facts


def as_text(found: Imatrix, tensors: bool) -> Iterator[str]:
    """The facts as lines, each with a label."""
    rows = [(label, printable(value, 400)) for label, value in _facts(found) if value]
    width = max(len(label) for label, _ in rows)
    yield from (f"{label:{width}}  {value}" for label, value in rows)
    if tensors:
        yield ""
        yield from table(("tensor", "values", "tokens"), (_row(*item) for item in found.entries.items()))


def _facts(found: Imatrix) -> Iterator[tuple[str, str]]:
    yield "file", str(found.path)
    yield "size", size(found.path.stat().st_size)
    yield "kind", "importance matrix, no model; convert and quantize take it with --imatrix"
    yield "entries", counted(len(found.entries), "tensor")
    yield "texts", ", ".join(found.datasets)
    of = f" of {found.chunk_size:,} tokens" if found.chunk_size else ""
    yield "read", f"{counted(found.chunks, 'chunk')}{of}" if found.chunks is not None else ""
    if experts := expert_counts(found):
        shown = ", ".join(
            f"{each.tokens:,} by expert {each.expert} of layer {each.layer}" for each in experts[:_FEWEST]
        )
        yield "experts", f"{len(experts):,} in {len({each.layer for each in experts}):,} layers"
        yield "fewest", f"tokens seen: {shown}"


def _row(name: str, entry: ImatrixEntry) -> tuple[str, ...]:
    least, most = int(entry.counts.min()), int(entry.counts.max())
    return name, f"{entry.sums.size:,}", f"{least:,}" if least == most else f"{least:,} to {most:,}"
