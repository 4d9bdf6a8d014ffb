"""Formats of strings: those that llguidance follows, and those that are patterns here.

llguidance has 29 February in every year, and minutes of 61 seconds.
"""

_YEAR = r"(?:[1-9]\d{3}|0[1-9]\d{2}|00[1-9]\d|000[1-9])"
_MONTH_AND_DAY = (
    r"(?:(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])|(?:0[469]|11)-(?:0[1-9]|[12]\d|30)|02-(?:0[1-9]|1\d|2[0-8]))"
)
_LEAP_YEAR = r"(?:\d{2}(?:0[48]|[2468][048]|[13579][26])|(?:0[48]|[2468][048]|[13579][26])00)"
_DATE = f"(?:{_YEAR}-{_MONTH_AND_DAY}|{_LEAP_YEAR}-02-29)"
_TIME = r"(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{1,6})?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)"

PATTERNS = {"date-time": f"^{_DATE}T{_TIME}$", "date": f"^{_DATE}$", "time": f"^{_TIME}$"}
"""Formats of RFC 3339, section 5.6, as patterns of ECMA-262."""

OF_LLGUIDANCE = ("duration", "email", "hostname", "ipv4", "ipv6", "uuid", "uri")
"""Formats that llguidance follows."""

FREE = ("password", "float", "double", "int64")
"""Formats of OpenAPI that exclude nothing: integers of guides have less than 64 bits."""

INTEGERS = {"int32": (-(2**31), 2**31 - 1)}
"""Formats of OpenAPI for integers: the smallest and the largest."""
