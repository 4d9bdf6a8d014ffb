"""Formats of strings, as patterns: some of the valid texts of each, as implementations differ about the others.

Dates exist (RFC 3339, section 5.6), and no minute has 61 seconds. Durations are those of RFC 3339, appendix A. Names of
hosts have no labels with two hyphens in a row (RFC 5891 keeps these for itself), and the last label begins with a
letter (RFC 1123, section 2.1). The local part of an address is a dot-string (RFC 5321). A URI is absolute (RFC 3986).
"""

_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])"
_MONTH_AND_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_LEAP_YEAR = r"(?:\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = f"(?:{_YEAR}-{_MONTH_AND_DAY}|{_LEAP_YEAR}-02-29)"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"
_CLOCK = r"T(?:\d{1,9}H(?:\d{1,9}M(?:\d{1,9}S)?)?|\d{1,9}M(?:\d{1,9}S)?|\d{1,9}S)"
_CALENDAR = r"(?:\d{1,9}Y(?:\d{1,9}M(?:\d{1,9}D)?)?|\d{1,9}M(?:\d{1,9}D)?|\d{1,9}D)"
_LABEL = "[A-Za-z0-9](?:-?[A-Za-z0-9]){0,30}"  # at most 61 of the 63 letters that a label may have
_HOST = f"(?:{_LABEL}\\.){{0,3}}[A-Za-z](?:-?[A-Za-z0-9]){{0,30}}"
_ATOM = "[A-Za-z0-9!#$%&'*+/=?^_`{|}~-]{1,20}"
_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d{2}|[1-9]?\d)"
_IPV4 = rf"{_BYTE}(?:\.{_BYTE}){{3}}"
_GROUP = "[0-9A-Fa-f]{1,4}"
_IPV6 = "|".join(
    [
        f"(?:{_GROUP}:){{7}}{_GROUP}",
        f"(?:{_GROUP}:){{1,7}}:",
        *(f"(?:{_GROUP}:){{1,{7 - n}}}(?::{_GROUP}){{1,{n}}}" for n in range(1, 7)),
        f":(?::{_GROUP}){{1,7}}",
        "::",
    ]
)
_HEX = "[0-9A-Fa-f]"
_ESCAPED = f"%{_HEX}{{2}}"
_PATH = rf"(?:[A-Za-z0-9._~!$&'()*+,;=:@-]|{_ESCAPED})"
_SCHEME = "[A-Za-z][A-Za-z0-9+.-]{0,30}"
_URI = rf"{_SCHEME}:(?://(?:{_HOST}|{_IPV4})(?::\d{{1,5}})?(?:/{_PATH}*)*|{_PATH}+)(?:\?(?:{_PATH}|[/?])*)?(?:#(?:{_PATH}|[/?])*)?"

FORMATS: dict[str, tuple[str, ...]] = {
    name: tuple(f"^(?:{text})$" for text in texts)
    for name, texts in {
        "date-time": (f"{_DATE}T{_TIME}",),
        "date": (_DATE,),
        "time": (_TIME,),
        "duration": (f"P(?:{_CALENDAR}(?:{_CLOCK})?|{_CLOCK}|\\d{{1,9}}W)",),
        "email": (rf"{_ATOM}(?:\.{_ATOM}){{0,2}}@{_HOST}",),
        "hostname": (_HOST,),
        "ipv4": (_IPV4,),
        "ipv6": (_IPV6,),
        "uuid": (f"{_HEX}{{8}}(?:-{_HEX}{{4}}){{3}}-{_HEX}{{12}}",),
        "uri": (_URI,),
        "json-pointer": ("(?:/(?:[^~/]|~[01])*)*",),
        "byte": ("(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?",),
        "password": (),
        "float": (),
        "double": (),
    }.items()
}
"""ECMA-262 patterns, all of which match; a format without one says nothing about the text. The last four are of
OpenAPI."""

INTEGER_FORMATS = {"int32": (-(2**31), 2**31 - 1), "int64": (-(2**63), 2**63 - 1)}
"""Formats of numbers: the smallest and the largest (OpenAPI)."""
