"""Models split over several files."""

from pathlib import Path

from support import gguf_bytes as raw

ARCH = raw.string_pair("general.architecture", "llama")


def split_pairs(number: int, count: int, tensors: int) -> tuple[bytes, ...]:
    """The keys of a part as gguf-split writes them."""
    return (
        raw.pair("split.no", raw.U16, raw.number(raw.U16, number)),
        raw.pair("split.count", raw.U16, raw.number(raw.U16, count)),
        raw.pair("split.tensors.count", raw.I32, raw.number(raw.I32, tensors)),
    )


def write_parts(folder: Path, count: int = 3) -> list[Path]:
    """A model of `count` parts with one tensor each, holding its part's number."""
    paths = []
    for i in range(count):
        pairs = ((ARCH,) if i == 0 else ()) + split_pairs(i, count, count)
        part = raw.RawGGUF(pairs=pairs, tensors=(raw.f32_tensor(f"t{i}", (1,), 0, [i]),))
        paths.append(part.write(folder / f"m-{i + 1:05}-of-{count:05}.gguf"))
    return paths
