"""What `close` of devices and runners shares."""


def drop(owner: object, *names: str) -> None:
    """Delete the attributes `names` that an object still has: a `close` that was interrupted can be called again."""
    for name in names:
        vars(owner).pop(name, None)
