"""Questions in many phrasings: a topic's words in general patterns, with typing errors."""

import random
import re
import string
from collections.abc import Mapping, Sequence

from topic import Topic

Lists = Mapping[str, Sequence[str]]

COMMON = {"term": 3, "task": 4, "why": 4, "ability": 5, "feature": 5, "ask": 6, "plain": 4}
"""Sampling weights of the kinds of forms, limited by the number of forms that a topic has."""

SHORT = 5
"""Texts of up to this many letters get no typing errors: they would be unreadable."""

VERBS = "depend|limit|matter|need|take|open|start|load|map|decide|follow|hang|get|rain|rise|purr|change|hurt|make"
"""Verbs in facts, for questions with "does"."""


class Asker:
    """Makes questions about topics; `words` are the lists behind {name}, `patterns` those in patterns.txt."""

    def __init__(self, words: Lists, patterns: Lists, rng: random.Random) -> None:
        self.words, self.patterns, self.rng = words, patterns, rng
        self.short = [pair.split(" = ") for pair in patterns["short"]]

    def ask(self, topic: Topic) -> str:
        """A question as a person may type it."""
        kinds = [kind for kind, forms in topic.forms.items() for _ in range(min(len(forms), COMMON[kind]))]
        kind = self.rng.choice(kinds)
        form = self.fill(self.rng.choice(topic.forms[kind]))
        if kind == "why" and self.rng.random() < 0.6:
            form = _why(form)
        elif kind in self.patterns:
            form = self.rng.choice(self.patterns[kind]).replace("{}", form)
        return self._typed(form, bare=kind == "plain")

    def fill(self, form: str) -> str:
        """A form with one alternative chosen for each (a|b), and a word for each {name}."""
        while group := re.search(r"\(([^()]*)\)", form):
            form = form[: group.start()] + self.rng.choice(group[1].split("|")) + form[group.end() :]
        while name := re.search(r"\{(\w+)\}", form):
            form = form[: name.start()] + self._word(name[1]) + form[name.end() :]
        return " ".join(form.split())

    def _word(self, name: str) -> str:
        if name == "number":
            return str(self.rng.randrange(10 ** self.rng.choice([1, 1, 2, 2, 3, 4])))
        return self._unknown() if name in ("unknown", "word") else self.rng.choice(self.words[name])

    def _unknown(self) -> str:
        """A meaningless word of five letters or more, to train the answer to unknown words.

        Shorter ones could be greetings, such as "hi".
        """
        rng, consonants, vowels = self.rng, "bcdfghjklmnprstvwz", "aeiou"
        pairs = (rng.choice(consonants) + rng.choice(vowels) for _ in range(rng.randint(2, 4)))
        return "".join(pairs) + self.rng.choice(["n", "r", "s", "t", "l", "m"])

    def _typed(self, text: str, bare: bool) -> str:
        rng = self.rng
        if rng.random() < (0.05 if bare else 0.2):
            text = f"{rng.choice(self.patterns['before'])} {text}"
        mark = rng.choice(["?", "?", "?", "", "", "??", ".", " ?"]) if not bare else rng.choice(["", "", "!", ".", "?"])
        if rng.random() < (0.03 if bare else 0.15):
            text = f"{text} {rng.choice(self.patterns['after'])}".replace(" ,", ",")
        for long, short in self.short:
            if long in text and rng.random() < 0.15:
                text = text.replace(long, short)
        if len(text) > SHORT and rng.random() < 0.3:
            text = self._slip(text)
        return self._cased(text) + mark

    def _cased(self, text: str) -> str:
        way = self.rng.random()
        if way < 0.5:
            text = re.sub(r"\bi\b", "I", text)
            return text[:1].upper() + text[1:]
        if way < 0.75:
            return text
        return text.upper() if way > 0.98 else text.lower()

    def _slip(self, text: str) -> str:
        """The text with one or two letters left out, doubled, swapped or replaced."""
        for _ in range(self.rng.choice([1, 1, 2])):
            i = self.rng.randrange(max(1, len(text) - 1))
            a, b = text[i : i + 1], text[i + 1 : i + 2]
            if (a + b).isalpha():
                other = self.rng.choice(string.ascii_lowercase)
                text = text[:i] + self.rng.choice([b, a + a + b, b + a, other + b]) + text[i + 2 :]
        return text


def _why(sentence: str) -> str:
    """A sentence as a question: "decode is slow" becomes "why is decode slow"."""
    if found := re.fullmatch(r"(.+?) (is|are|does|do|has) (.+)", sentence):
        return f"why {found[2]} {found[1]} {found[3]}"
    if found := re.fullmatch(rf"(.+?) ({VERBS})s\b(.*)", sentence):
        return f"why does {found[1]} {found[2]}{found[3]}"
    return f"why {sentence}"
