"""Documents with coreference chains, and texts that show the chains to people."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from typing import Any

from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.formats.coreference import NO_SPEAKER, check_sentences, document_values
from elmo_tasks.data.input_files import InputError, NoWordsError, ids_of, shorten_json
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import Words

TokenSpan = tuple[int, int]
"""First and last token, both inclusive, counted from the first token of the document."""
Cluster = list[TokenSpan]


@dataclass
class CorefDocument(Metadata):
    """A document, or one part of it, with its text and, if known, its gold clusters."""

    id: str
    sentences: list[list[str]]
    speakers: list[str]
    """The speaker of each token, `-` if unknown."""
    clusters: list[Cluster] | None = None
    """The gold clusters and their mentions, in the order of the text."""
    words: Words = field(kw_only=True)
    """All tokens, with their offsets in the text."""
    joined: int = 0

    def __len__(self) -> int:
        return len(self.words.words)

    @classmethod
    def of(
        cls,
        sentences: list[list[str]],
        *,
        id: str = "",
        speakers: list[list[str]] | None = None,
        clusters: Sequence[Sequence[Sequence[int]]] | None = None,
        words: Words | None = None,
    ) -> "CorefDocument":
        """
        Checks the values of a document; bad ones are an `InputError`. Clusters with a mention in common are
        joined, as in other systems for OntoNotes. `words` are the words in their text, by default joined by
        blanks.
        """
        check_sentences("sentences", sentences)
        if not any(sentences):
            raise NoWordsError("the document has no words")
        if not all(sentences):
            raise InputError('"sentences" has a sentence without words')
        if speakers is None:
            speakers = [[NO_SPEAKER] * len(sentence) for sentence in sentences]
        check_sentences("speakers", speakers)
        if list(map(len, speakers)) != list(map(len, sentences)):
            raise InputError('"speakers" needs one name for each word of each sentence')
        tokens = list(chain.from_iterable(sentences))
        gold = None if clusters is None else _clusters(clusters, len(tokens))
        return cls(
            id,
            sentences,
            [name or NO_SPEAKER for name in chain.from_iterable(speakers)],
            gold,
            words=words or join_words(tokens),
            joined=sum(map(bool, clusters or ())) - len(gold or ()),
        )

    @classmethod
    def from_record(cls, values: dict[str, Any]) -> "CorefDocument":
        content = document_values(values)
        document = cls.of(
            content["sentences"],
            id=str(content.get("doc_key", content.get("id", ""))),
            speakers=content.get("speakers"),
            clusters=content.get("clusters"),
        )
        document.ids = ids_of(values)
        return document


def _clusters(clusters: Any, tokens: int) -> list[Cluster]:
    if not isinstance(clusters, list) or not all(isinstance(cluster, list) for cluster in clusters):
        raise InputError(f'"clusters" is not a list of lists of mentions: {shorten_json(clusters)}')
    cluster_of: dict[TokenSpan, set[TokenSpan]] = {}
    for cluster in clusters:
        mentions = {_mention(span, tokens) for span in cluster}
        mentions = mentions.union(*(cluster_of.get(mention, ()) for mention in mentions))
        cluster_of |= dict.fromkeys(mentions, mentions)
    different = {id(mentions): sorted(mentions) for mentions in cluster_of.values()}
    return sorted(different.values())


def _mention(span: Any, tokens: int) -> TokenSpan:
    if isinstance(span, (list, tuple)) and len(span) == 2 and all(type(end) is int for end in span):
        first, last = span
        if 0 <= first <= last < tokens:
            return first, last
    form = f"[first token, last token], in order and from 0 to {tokens - 1}"
    raise InputError(f'"clusters" has the mention {shorten_json(span)}, which is not {form}')


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
"""Words before which `her` is not possessive: "saw her again", but "saw her brother"."""
_NO_NAME = _POSSESSIVE | _words("a an the this that these those some any every each no all both")
"""First words of mentions that have a small letter within a sentence."""
_GENITIVE = ("'s", "\u2019s")


def mark_mentions(words: Words, clusters: Sequence[Cluster]) -> str:
    """Marks mentions with the numbers of their clusters, such as `[0 Ana] lost [1 [0 her] keys]`."""
    starts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    ends: dict[int, str] = defaultdict(str)
    for cluster_index, cluster in enumerate(clusters):
        for first, last in cluster:
            starts[first].append((-last, cluster_index))
            ends[last] += "]"
    replacements: dict[int, str] = {}
    for index in starts.keys() | ends.keys():
        opened = "".join(f"[{cluster_index} " for _, cluster_index in sorted(starts[index]))
        replacements[index] = opened + _text(words, (index, index)) + ends[index]
    return _replace_words(words, replacements)


def is_pronoun(words: Words, span: TokenSpan) -> bool:
    return _is_one_of(words, span, _PRONOUNS)


def name_of(mentions: Sequence[str]) -> str:
    """Returns the first name among the texts of mentions, or else the first of them, without its 's."""
    name = next(filter(_is_name, mentions), mentions[0])
    return name[:-2].rstrip() if name.endswith(_GENITIVE) else name


def names_of_pronouns(words: Words, clusters: Sequence[Cluster]) -> dict[int, list[TokenSpan]]:
    """Maps personal and possessive pronouns, by their tokens, to the other mentions of their clusters."""
    names_of: dict[int, list[TokenSpan]] = {}
    for cluster in clusters:
        names = [span for span in cluster if not is_pronoun(words, span)]
        for first, last in cluster:
            within = bool(names) and names[0][0] <= first <= names[0][1]
            if names and not within and _is_one_of(words, (first, last), _PERSONAL):
                names_of[first] = names
    return names_of


def replace_pronouns(document: CorefDocument, names: Mapping[int, TokenSpan]) -> str:
    """Replaces pronouns, given by their tokens, and possessives with 's: `Ana lost Ana's keys`."""
    words = document.words
    sentence_starts = {0, *accumulate(map(len, document.sentences))}
    replacements: dict[int, str] = {}
    for index, mention in names.items():
        name = _name(words, mention, capital=index in sentence_starts)
        replacements[index] = f"{name}'s" if _is_possessive(words, index, sentence_starts) else name
    return _replace_words(words, replacements)


def _replace_words(words: Words, replacements: Mapping[int, str]) -> str:
    parts, before = [], 0
    for index in sorted(replacements):
        start, end = words.offsets[index]
        parts += [words.text[before:start], replacements[index]]
        before = end
    return "".join([*parts, words.text[before:]])


def _text(words: Words, span: TokenSpan) -> str:
    return words.text[words.offsets[span[0]][0] : words.offsets[span[1]][1]]


def _is_one_of(words: Words, span: TokenSpan, pronouns: frozenset[str]) -> bool:
    return span[0] == span[1] and words.words[span[0]].lower() in pronouns


def _is_name(mention: str) -> bool:
    """Returns whether the last word begins with a capital letter; no pronoun is a name."""
    words = join_words(mention.split())
    last = len(words.words) - 1
    return last >= 0 and words.words[last][0].isupper() and not is_pronoun(words, (0, last))


def _is_possessive(words: Words, index: int, sentence_starts: set[int]) -> bool:
    word = words.words[index].lower()
    if word != "her":
        return word in _POSSESSIVE
    if index + 1 in sentence_starts:
        return False
    next_word = words.words[index + 1].lower()
    return next_word.isalpha() and next_word not in _AFTER_OBJECT


def _name(words: Words, span: TokenSpan, *, capital: bool) -> str:
    """Returns a mention for another position: without its own 's, its first letter large or small."""
    first, last = span
    last -= first < last and words.words[last] in _GENITIVE
    name = _text(words, (first, last))
    if capital:
        return name[:1].upper() + name[1:]
    return name[:1].lower() + name[1:] if words.words[first].lower() in _NO_NAME else name
