"""A guide that allows every text."""


class FreeText:
    """Free text, of which only the thinking before it is limited. See `edgellm.guides.guide.Guide`."""

    begun, complete, ended = False, True, False

    def allowed(self) -> None:
        """Every token."""

    def fork(self) -> "FreeText":
        """Another one."""
        child = FreeText()
        child.begun = self.begun
        return child

    def accept(self, token: int) -> None:
        """Append a token."""
        self.begun = True

    def forced(self) -> list[int]:
        """None."""
        return []
