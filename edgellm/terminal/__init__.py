"""Text on a terminal: harmless, in tables, and through streams that cannot fail."""
