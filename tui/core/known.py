"""The names of the models on this machine."""

from threading import Thread


class Known:
    """`names` as MODEL accepts them, found by a thread that ends with the process: a folder on a network may never
    answer.
    """

    def __init__(self) -> None:
        self.names: tuple[str, ...] = ()

    def look(self) -> None:
        """Find out which there are now."""
        Thread(target=self._look, name="model names", daemon=True).start()

    def _look(self) -> None:
        from edgellm.models.names import labels
        from edgellm.models.stores import stored_models

        self.names = tuple(labels(stored_models()))
