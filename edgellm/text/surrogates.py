"""Text that UTF-8 can hold."""


def without_surrogates(text: str) -> str:
    """`text` as UTF-8 can hold it: surrogate pairs become their character, lone ones U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
