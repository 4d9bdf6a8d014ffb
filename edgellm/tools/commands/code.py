"""Finds placeholders inside of code: an argument would be read by a shell or an interpreter there, not by a program."""

import re
from collections.abc import Sequence
from pathlib import PureWindowsPath

from edgellm.tools.commands.template import PLACEHOLDER, names_in

_SHELL = r"(?:ba|da|z|k|a|c|tc|fi)?sh"
_INTERPRETER = re.compile(rf"{_SHELL}|python[\d.]*|perl|ruby|node|php|lua|rscript|osascript|cmd|powershell|pwsh")
_JOINING = re.compile(r"cmd|powershell|pwsh")
"""Interpreters whose code is all items behind the option."""
_CODE_OPTION = re.compile(r"(?!-file)-[a-z]{0,5}[cer]|-p|/[ck]|-command|--eval|--print", re.IGNORECASE)
_WITH_VALUE = re.compile(r"[-+][a-z]{0,5}o|-[IWX]|--rcfile|--init-file", re.IGNORECASE)
_BATCH = (".bat", ".cmd")


def code_problem(items: Sequence[str]) -> str:
    """What is wrong with the placeholders of an argv, as words with advice; "" if nothing is.

    A placeholder that is the whole code, as in `["bash", "-c", "{command}"]`, is no accident: the model writes scripts.
    """
    if names_in(items[0]):
        return "lets the model choose the program; name the program in the first item"
    if items[0].lower().endswith(_BATCH) and names_in(*items):
        return "gives arguments to a batch file, which Windows reads as code; run a program, and read stdin there"
    code = _code(items)
    script = [item for item in code if not item.startswith("-")]
    if len(script) == 1 and PLACEHOLDER.fullmatch(script[0]) and names_in(*code) == names_in(*script):
        return ""
    if found := names_in(*code):
        advice = f'write "$1" in the code and give "{{{found[0]}}}" as an item of its own behind it, or read stdin'
        return f"has the placeholder {{{found[0]}}} inside of code, where an argument would be read as code; {advice}"
    return ""


def _code(items: Sequence[str]) -> Sequence[str]:
    """The items that an interpreter among them reads as code; it may stand behind `env` or `sudo`."""
    for i, item in enumerate(items):
        name = PureWindowsPath(item).name.lower().removesuffix(".exe")  # paths of POSIX, too
        if _INTERPRETER.fullmatch(name) and (start := _code_start(items, i + 1)):
            # Further options may stand before the code.
            end = next((k for k in range(start, len(items)) if not items[k].startswith("-")), len(items))
            return items[start:] if _JOINING.fullmatch(name) else items[start : end + 1]
    return ()


def _code_start(items: Sequence[str], first: int) -> int:
    """The index of code behind the options of an interpreter, which begin at `first`; 0 if a script comes first."""
    for i in range(first, len(items)):
        if _CODE_OPTION.fullmatch(items[i]):
            return i + 1
        if not items[i].startswith(("-", "+")) and not _WITH_VALUE.fullmatch(items[i - 1]):
            break
    return 0
