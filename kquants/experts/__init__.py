"""Mixtures of experts: which experts compute a row, and where their rows lie."""
