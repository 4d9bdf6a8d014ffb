"""Short names of models, for the screen."""

from edgellm.fmt import printable


def display_name(model: str, limit: int = 80) -> str:
    """A model's name in at most `limit` characters, without control characters.

    Of a path to a .gguf file the last part is taken. A longer name is cut in its middle, as names differ at their ends.
    """
    name = model.replace("\\", "/").rpartition("/")[2] if model.lower().endswith(".gguf") else model
    if len(name) > limit:
        end = (limit - 1) // 2
        name = f"{name[: limit - 1 - end]}…{name[len(name) - end :]}"
    return printable(name, 4 * limit)
