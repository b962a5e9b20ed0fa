"""Find the negated terms of a text query: "shoes without laces", "anything but jeans", "non-leather", "-black"."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field


def _phrases(text: str) -> frozenset[str]:
    return frozenset(text.split(", "))


_VERBS = _phrases("is, are, do, does, did, was, were, has, have, had, must, should, would, could, can, ca, wo, ai")
#: Negations of what follows. After the first kind, "and" ends the list of excluded terms.
_NOT = frozenset(("not", "never", *(verb + end for verb in _VERBS for end in ("n't", "nt")), "cannot"))
_WITHOUT = _phrases(
    "but not, no, but no, nor, neither, without, w/o, w/out, with out, sans, except, except for, excepting, excluding, "
    "exclude, other than, apart from, aside from, instead of, rather than, as opposed to, different from, free of, "
    "free from, devoid of, void of, lacking, lacks, omitting, barring, leaving out, with the exception of, save for, "
    "exclusive of, anything but, everything but, all but, any but, none of, nothing"
)
#: Negations only in collections without these words, which may also be names.
_WEAK = frozenset(("minus", "besides", "unlike", "avoid", "avoiding", "skip", "omit"))
#: With one of these words before it, "but" excludes: "any colour but blue".
_EVERY = frozenset(("all", "any", "every", "everything", "anything", "whatever"))
#: Words that cancel a negation before them ("not only"), and nouns that make it a name: "no smoking sign".
_CANCELLED = _phrases(
    "only, just, too, very, so, quite, necessarily, exactly, always, yet, sure, bad, more, less, fewer, longer, "
    "matter, one, doubt, idea, problem, to, but, else, included, available"
)
_SIGNS = frozenset(("sign", "signs", "symbol", "symbols", "icon", "logo", "button", "sticker", "poster", "error"))
#: Words between a negation and the excluded term.
_FILLERS = _phrases(
    "a, an, the, any, some, have, has, having, with, made, contain, contains, containing, show, shows, showing, wear, "
    "wears, wearing, hold, holds, holding, carry, carrying, point, pointing, facing, feature, features, featuring, "
    "include, includes, including, involving, counting, use, using, want, need, like, look, looks, looking, really, "
    "even, me, ones, those, these, that, being, be, by, from, on, at, in, of, for, near, during, visible, it, much, "
    "many, about, as, all, every, other, give, picture, pictures, photo, photos, image, images, kind, kinds, type, "
    "types, lot, lots, sort, actual, single, style"
)
#: Words before a negation that have no other meaning: "shoes that do not ...".
_BEFORE = _VERBS | _phrases(
    "be, will, it, its, it's, that, that's, which, who, they, they're, i, we, you, please, with, having, but, and, -, –"
)
#: Verbs after "do not", which is otherwise an order, as on a sign: "do not enter".
_WANTED = _phrases("have, want, need, like, show, include, contain, use, wear, look, feature, be, give, me")
#: Words that end an excluded term.
_PREPOSITIONS = _phrases("for, with, in, on, at, from, by, near, under, over, behind, beside, during, to, into, inside")
_ENDS = _PREPOSITIONS | _phrases(
    "and, or, nor, but, that, which, who, where, while, is, are, please, thanks, only, also, just, as, if, then"
)
_ARTICLES = frozenset(("a", "an", "the", "some"))
_TOKEN = re.compile(r'[-–−!]?"[^"]*"|\S+')
_MARKS = ".,;:!?\"'()[]“”‘"


@dataclass
class _Parser:
    """Splits the tokens of a query; ``plain`` are the tokens in lower case, without punctuation."""

    tokens: Sequence[str]
    knows: Callable[[str], bool]
    name_length: Callable[[Sequence[str]], int]
    kept: list[str] = field(default_factory=list)
    excluded: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.plain = [token.lower().replace("’", "'").strip(_MARKS) for token in self.tokens]
        self.place = 0

    def run(self) -> None:
        while self.place < len(self.tokens):
            token, word = self.tokens[self.place], self.plain[self.place]
            marked = re.match(r'[-–−!]"?(?=[^\W\d_])', token)
            joined = re.fullmatch(r"non-?(\w{3,})|(\w{3,})(?:-free|-?less)", word)
            if marked:
                self._exclude(token[marked.end() :].lower().strip(_MARKS))
            elif token.startswith('"'):
                self.kept.append(token)
            elif joined and self._is_negated(word, joined[1] or joined[2]):
                self._exclude(joined[1] or joined[2])
            elif word == "non" and self.plain[self.place + 1 :] and not self._is_phrase(1):
                self.place += 1
                self._exclude(self.plain[self.place])
            elif word in ("excluded", "omitted") and self.kept:
                self._exclude(self.kept.pop().lower().strip(_MARKS))
            elif length := self._negation():
                self._read_terms(length)
                continue
            else:
                self.kept.append(token)
            self.place += 1

    def _is_negated(self, word: str, part: str) -> bool:
        """Return whether a word negates a part of it: "non-leather", "sugar-free", "strapless"."""
        knows_part = "-" in word or self.knows(part) or self.knows(f"{part}s")
        return knows_part and not self.knows(word.replace("-", " "))

    def _exclude(self, term: str) -> None:
        self.excluded += [term] if term else []

    def _negation(self) -> int:
        """Return the number of words of a negation that begins here; 0 if there is none, or if it is part of a name."""
        for length in (4, 3, 2, 1):
            cue, after = " ".join(self.plain[self.place : self.place + length]), self.plain[self.place + length :]
            before = {word.lower() for word in self.kept[-4:]}
            is_cue = cue in _NOT | _WITHOUT or (cue == "but" and before & _EVERY)
            if not after or not (is_cue or (cue in _WEAK and not self.knows(cue) and not self.name_length([cue]))):
                continue
            if after[0] in _CANCELLED or after[0][:1].isdigit() or self._is_phrase(length):
                return 0
            is_order = cue in ("don't", "dont") or (cue == "not" and before & {"do"})
            return 0 if is_order and len(self.kept) < 2 and after[0] not in _WANTED else length
        return 0

    def _is_phrase(self, length: int) -> bool:
        """Return whether texts contain the negation and the word after it, or the words name a sign."""
        start, end = self.place, self.place + length
        is_sign = start < 3 and not _SIGNS.isdisjoint(self.plain[end + 1 : end + 4])
        while end < len(self.plain) - 1 and self.plain[end] in _FILLERS:
            end += 1
        return is_sign or self.knows(" ".join(self.plain[start : end + 1]))

    def _read_terms(self, length: int) -> None:
        """Read a negation and the list of terms that it excludes."""
        cue = " ".join(self.plain[self.place : self.place + length])
        is_after_comma = self.place > 0 and self.tokens[self.place - 1].endswith(",")
        while self.kept and self.kept[-1].lower() in _BEFORE:
            self.kept.pop()
        is_first = not self.kept and cue in _NOT | {"no", "neither"}
        joins_and, self.place = cue not in _NOT, self.place + length
        is_list, goes_on = self._is_list(joins_and, is_after_comma), True
        while goes_on and self.place < len(self.tokens):
            while self.place < len(self.tokens) - 1 and self.plain[self.place] in _FILLERS:
                self.place += 1
            self._exclude(self._term(stop_at_label=cue in _NOT, short=is_first))
            link, *after = [*self.plain[self.place : self.place + 2], "", ""][:2]
            goes_on = is_list and self.tokens[self.place - 1].endswith(",")
            is_linked = link in ("or", "nor") or (link == "and" and (joins_and or goes_on))
            if is_linked and after[0] and (link != "and" or after[0] not in _ENDS | _NOT | _WITHOUT):
                goes_on = link != "and" or not (cue.endswith("no") and after[0] in _ARTICLES)
                self.place += goes_on

    def _is_list(self, joins_and: bool, is_after_comma: bool) -> bool:
        """Return whether terms with commas between them follow: with a conjunction, or at least three."""
        n_commas, n_words = 0, 0
        for token, word in zip(self.tokens[self.place :], self.plain[self.place :], strict=True):
            if word in ("or", "nor") or (word == "and" and joins_and):
                return True
            n_words = 0 if token.endswith(",") else n_words + 1
            n_commas += token.endswith(",")
            if n_words > 2 or word in _ENDS:
                return False
        return n_commas > 1 and not is_after_comma

    def _term(self, *, stop_at_label: bool, short: bool) -> str:
        """Read an excluded term: a label, a word, or several words, without those that are also searched for."""
        rest = self.plain[self.place :]
        if rest[2:] and rest[0].endswith(("ed", "ing")) and rest[1] in _PREPOSITIONS:  # "not covered in snow"
            self.place += 2 + (rest[2] in _ARTICLES and len(rest) > 3)
        start, label = self.place, self.name_length(self.plain[self.place :])
        end = start + max(label, 1)
        if self.plain[end : end + 1] == ["and"] and self.knows(" ".join(self.plain[start : end + 2])):
            end += 2  # "not black and white"
        while end < len(self.tokens) and not (short or (label and stop_at_label)):
            ended = self.tokens[end - 1][-1] in ",;:.)!?"
            if ended or self.plain[end] in _ENDS | _NOT | _WITHOUT or self.tokens[end][0] in "-–−(":
                break
            end += 1
        self.place = end
        searched = {word.lower().strip(_MARKS).rstrip("s") for word in self.kept}
        words = self.plain[start:end]
        return " ".join([word for word in words if word.rstrip("s") not in searched] or words)


def split_negated(
    text: str, knows: Callable[[str], bool], name_length: Callable[[Sequence[str]], int]
) -> tuple[list[str], list[str]]:
    """Return the words to search for, and the excluded terms; an item with all words of a term is excluded.

    knows: Whether a word or phrase occurs in the collection's texts, such as "no smoking", which is then a name.
    name_length: Length in words of the longest label name that the words begin with.
    """
    parser = _Parser(_TOKEN.findall(text), knows, name_length)
    parser.run()
    return parser.kept, parser.excluded
