"""Which schemas have a value at all, of finite size."""

from collections.abc import Callable
from itertools import combinations

from edgellm.guides.schema.algebra import Algebra
from edgellm.guides.schema.document import fail, shown
from edgellm.guides.schema.numbers import Numbers
from edgellm.guides.schema.part import Arrays, Conjunction, Objects, Strings
from edgellm.guides.schema.shapes import (
    Fixed,
    OtherNames,
    Shape,
    children,
    item,
    names,
    other_names,
    property_schema,
)
from edgellm.guides.schema.terminals import name_terminal, string_terminal


class Possible:
    """Whether a schema has a value. `has_text` tells it of a terminal of a grammar."""

    def __init__(self, algebra: Algebra, has_text: Callable[[str], bool]) -> None:
        self._algebra, self._has_text = algebra, has_text
        self._found: dict[Conjunction, bool] = {}

    def __call__(self, schema: Conjunction) -> bool:
        """Whether there is a value. Raises GuideError as `Algebra.shapes` does."""
        if schema not in self._found:
            new = self._reachable(schema)
            self._found |= dict.fromkeys(new, False)
            # A value of one round is made of those of the rounds before.
            while risen := [
                each for each in new if not self._found[each] and any(map(self.has, self._algebra.shapes(each)))
            ]:
                self._found |= dict.fromkeys(risen, True)
        return self._found[schema]

    def check_exclusive(self) -> None:
        """Raises GuideError where a value could be valid against two schemas of a oneOf."""
        checked = dict[Conjunction, None]()
        while waiting := [group for group in self._algebra.exclusive if group not in checked]:
            checked |= dict.fromkeys(waiting)
            for one, other in (pair for group in waiting for pair in combinations(group, 2)):
                if self((one, other)):
                    fail(one[:-1], f"allows a value that is valid twice, by {shown(one)} and {shown(other)}; use anyOf")

    def others(self, objects: Objects) -> list[OtherNames]:
        """The properties without a name in the schema that an object may have."""
        taken = names(objects)
        return [
            each
            for each in other_names(objects)
            if self._found[each.schema] and (not each.matching or self._has_text(name_terminal(each, taken)))
        ]

    def has(self, shape: Shape) -> bool:
        """Whether a shape has a value, by what is known of its items and properties."""
        if isinstance(shape, Fixed):
            return True
        if isinstance(shape, Numbers):
            return not shape.is_empty()
        if shape.most is not None and shape.most < shape.least:
            return False
        if isinstance(shape, Strings):
            return not shape.patterns or self._has_text(string_terminal(shape))
        if isinstance(shape, Arrays):
            return all(self._found[item(shape, i)] for i in range(min(shape.least, len(shape.prefix) + 1)))
        return self._has_object(shape)

    def _has_object(self, objects: Objects) -> bool:
        if not all(self._found[property_schema(objects, name)] for name in objects.required):
            return False
        if objects.most is not None and objects.most < len(objects.required):
            return False
        known = [name for name in names(objects) if self._found[property_schema(objects, name)]]
        return objects.least <= len(known) or bool(self.others(objects))

    def _reachable(self, schema: Conjunction) -> list[Conjunction]:
        found, waiting = dict[Conjunction, None](), [schema]
        while waiting:
            each = waiting.pop()
            if each not in found and each not in self._found:
                found[each] = None
                waiting += [child for shape in self._algebra.shapes(each) for child in children(shape)]
        return list(found)
