"""Words for numbers and untrusted text: every message and table about a file passes through here."""


def printable(text: str, limit: int = 80) -> str:
    """`text` on one line of at most `limit` characters, all harmless to a terminal.

    Control, formatting (bidirectional ones too) and lone surrogate characters become Python escapes.
    """
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return "".join(c if c.isprintable() else ascii(c)[1:-1] for c in cut)


def size(nbytes: float) -> str:
    """A number of bytes as people say it, in decimal units: `1.2 GB`."""
    for unit in ("bytes", "kB", "MB", "GB", "TB", "PB"):
        if nbytes < 999.5:
            return f"{nbytes:.0f} bytes" if unit == "bytes" else f"{nbytes:.3g} {unit}"
        nbytes /= 1000
    return f"{nbytes:.3g} EB"


def count(n: float) -> str:
    """A number of parameters as people say it: `1.24 B`."""
    for unit in ("", " k", " M", " B"):
        if n < 999.5:
            return f"{n:.3g}{unit}"
        n /= 1000
    return f"{n:.3g} T"


def counted(n: int, what: str) -> str:
    """So many things: `1 thread`, `2,048 tokens`."""
    return f"{n:,} {what}{'' if n == 1 else 's'}"


def duration(seconds: float) -> str:
    """Minutes and seconds, or hours, minutes and seconds: `1:02:03`."""
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"
