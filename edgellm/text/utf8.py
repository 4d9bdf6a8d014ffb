"""Text that UTF-8 can encode."""


def replace_surrogates(text: str) -> str:
    """`text` without surrogates: a pair becomes its character, a lone one U+FFFD."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
