"""Origins of web pages, as browsers send them."""

from urllib.parse import urlsplit

_DEFAULT_PORTS = {"http": 80, "https": 443}


def is_origin(text: str) -> bool:
    """Whether a browser may send this as Origin: scheme, host and port of a page in lower case, or `null`.

    The default port of a scheme is left out. (https://fetch.spec.whatwg.org/#origin-header)
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        return False
    is_exact = bool(parts.scheme and parts.hostname) and text == f"{parts.scheme}://{parts.netloc}".lower()
    is_plain = text.isascii() and text.isprintable() and " " not in text and "@" not in text
    return text == "null" or (is_exact and is_plain and port != _DEFAULT_PORTS.get(parts.scheme, 0))
