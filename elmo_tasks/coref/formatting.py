"""What a person reads of predicted clusters: the text with its mentions marked, or without its pronouns."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from itertools import accumulate

from elmo_tasks.coref.documents import Cluster, CorefDocument, Mention
from elmo_tasks.data.tokenization import Words


def _words(listed: str) -> frozenset[str]:
    return frozenset(listed.split())


_POSSESSIVE = _words("my mine your yours his hers its our ours their theirs")
_PERSONAL = _POSSESSIVE | _words(
    "i me myself you yourself yourselves he him himself she her herself it itself we us ourselves they them "
    "themselves"
)
_PRONOUNS = _PERSONAL | _words("who whom whose which that this these those one")
_AFTER_OBJECT = _words(
    "a about after again all an and as at away back because before but by down for from had has how if in "
    "into is like not now of off on or out over so than that the then there through to today tomorrow too "
    "under until up was were what when where which while who why will with without yesterday"
)
"""Words before which `her` is no possessive: "saw her again", not "saw her brother"."""
_NO_NAME = _POSSESSIVE | _words("a an the this that these those some any every each no all both")
"""First words of mentions that are written small within a sentence."""
_GENITIVE = ("'s", "\u2019s")


def marked(words: Words, clusters: Sequence[Cluster]) -> str:
    """`[0 Ana] lost [1 [0 her] keys].`: before each mention the number of its cluster."""
    starts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    ends: dict[int, str] = defaultdict(str)
    for number, cluster in enumerate(clusters):
        for first, last in cluster:
            starts[first].append((-last, number))
            ends[last] += "]"
    marks = {
        place: "".join(f"[{number} " for _, number in sorted(opened)) for place, opened in starts.items()
    }
    return _rewritten(
        words,
        {
            place: marks.get(place, "") + _text(words, (place, place)) + ends[place]
            for place in marks.keys() | ends.keys()
        },
    )


def resolved(document: CorefDocument, clusters: Sequence[Cluster]) -> str:
    """
    The text with each personal and possessive pronoun replaced by the first mention of its cluster that is no
    pronoun, possessives with 's: `Ana lost Ana's keys.` Whether `her` is possessive is told by the next word.
    A pronoun that is part of that mention stays.
    """
    words = document.words
    # (sentences,): place of the first word
    beginnings = {0, *accumulate(map(len, document.sentences))}
    replaced: dict[int, str] = {}
    for cluster in clusters:
        names = [span for span in cluster if not _is_one_of(words, span, _PRONOUNS)]
        for place in (first for first, last in cluster if _is_one_of(words, (first, last), _PERSONAL)):
            if names and not names[0][0] <= place <= names[0][1]:
                name = _name(words, names[0], capital=place in beginnings)
                replaced[place] = name + ("'s" if _is_possessive(words, place, beginnings) else "")
    return _rewritten(words, replaced)


def _rewritten(words: Words, replaced: Mapping[int, str]) -> str:
    """The text with some of its words replaced, by their places."""
    parts, behind = [], 0
    for place in sorted(replaced):
        start, end = words.offsets[place]
        parts += [words.text[behind:start], replaced[place]]
        behind = end
    return "".join([*parts, words.text[behind:]])


def _text(words: Words, span: Mention) -> str:
    return words.text[words.offsets[span[0]][0] : words.offsets[span[1]][1]]


def _is_one_of(words: Words, span: Mention, pronouns: frozenset[str]) -> bool:
    return span[0] == span[1] and words.words[span[0]].lower() in pronouns


def _is_possessive(words: Words, place: int, beginnings: set[int]) -> bool:
    word = words.words[place].lower()
    if word != "her":
        return word in _POSSESSIVE
    if place + 1 in beginnings:
        return False
    following = words.words[place + 1].lower()
    return following.isalpha() and following not in _AFTER_OBJECT


def _name(words: Words, span: Mention, *, capital: bool) -> str:
    """A mention as it is written in another place: without its own 's, its first letter large or small."""
    first, last = span
    last -= first < last and words.words[last] in _GENITIVE
    name = _text(words, (first, last))
    if capital:
        return name[:1].upper() + name[1:]
    return name[:1].lower() + name[1:] if words.words[first].lower() in _NO_NAME else name
