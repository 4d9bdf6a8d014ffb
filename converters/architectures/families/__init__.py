"""The architectures whose conversion takes more than their facts: one file each, named like the architecture."""

from converters.architectures.families.family import Family

FAMILIES: dict[str, Family] = {}
"""What is particular, by GGUF name; the others are `PLAIN_FAMILY`."""

PLAIN_FAMILY = Family()


def family_of(architecture: str) -> Family:
    """What is particular to an architecture."""
    return FAMILIES.get(architecture, PLAIN_FAMILY)
