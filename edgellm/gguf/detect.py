"""Recognizes files of other formats that are opened as GGUF files."""

import re
import struct

_BEGINNINGS = (
    (b"version https://git-lfs", "a Git LFS pointer, not the model; run `git lfs pull`, or download it"),
    (b"PK\x03\x04", "a ZIP archive or a PyTorch checkpoint; convert the checkpoint to GGUF"),
    (b"\x80\x02", "a Python pickle, probably a PyTorch checkpoint; convert the checkpoint to GGUF"),
    (b"\x1f\x8b", "gzip-compressed; unpack it first"),
    (b"\x28\xb5\x2f\xfd", "zstd-compressed; unpack it first"),
    (b"\xfd7zXZ", "xz-compressed; unpack it first"),
    (b"7z\xbc\xaf", "a 7-Zip archive; unpack it first"),
    (b"tjgg", "in the GGML format of 2023, before GGUF; get a newer conversion"),
    (b"fmgg", "in the GGML format of 2023, before GGUF; get a newer conversion"),
    (b"lmgg", "in the GGML format of 2023, before GGUF; get a newer conversion"),
)
_WEB_PAGE = (b"<!doctype", b"<html", b"<head", b"<?xml")


def describe_format(head: bytes) -> str:
    """What a file is that begins with `head` (some hundred bytes), and what to do: words that follow "is"."""
    for beginning, description in _BEGINNINGS:
        if head.startswith(beginning):
            return description
    if head.lstrip(b"\xef\xbb\xbf \t\r\n").lower().startswith(_WEB_PAGE):
        return "a web page, not a model; use the site's download link"
    if is_older_imatrix(head):
        return "an importance matrix in llama.cpp's older format, not a model; give it with --imatrix"
    # safetensors: a 64-bit length, then that much JSON.
    if head[8:9] == b"{" and head[5:8] == bytes(3):
        return "a safetensors file; convert the checkpoint to GGUF"
    if not head.strip(b"\0"):
        return "all zeros where it should begin, an unfinished download; download it again"
    text = " ".join(head.decode("latin-1").split())
    if text.isascii() and text.isprintable():
        return f'text that begins "{text[:40]}", not a model; check the path, or download it again'
    return f"not a GGUF file: it begins with the bytes {head[:4].hex(' ')}; check the path"


def is_older_imatrix(head: bytes) -> bool:
    """Whether a file that begins with `head` is an importance matrix in llama.cpp's older format, which has no magic:
    a number of entries, and the length and the name of a tensor."""
    if len(head) < 12:
        return False
    entries, length = struct.unpack_from("<ii", head)
    return 0 < entries < 1 << 16 and re.match(rb"[\w.]+\.weight$", head[8 : 8 + max(0, length)]) is not None
