"""
Documents with coreference chains: two formats that they are read from, and texts that show clusters to
people.

CoNLL-2012 (https://conll.cemantix.org/2012/data.html) has one token a line in columns, an empty line between
sentences, and `#begin document (ID); part 000` and `#end document` around each part of a document. Columns
are separated by tabs, or by runs of blanks in a line without tabs. Three are read: the word (4th), the
speaker (10th) and the chains (last). The chains are `-`, or marks joined by `|`: `(12` where a mention of
chain 12 starts, `12)` where it ends, `(12)` for one token. Of two open mentions of a chain, the one that
started last ends first. `/.` and `/?`, which end some sentences of OntoNotes, are read as `.` and `?`.

JSON Lines, in the layout of e2e-coref, have one object a line: `{"doc_key": "...", "sentences": [["..."]],
"speakers": [["..."]], "clusters": [[[first, last]]]}`; only `sentences` is required. All documents of a file
have `clusters`, or none has.

In both, an unknown speaker is `-`, as in OntoNotes, or empty, as in the output of e2e-coref's own programs.
"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.columns import BLANKS, split_cells, unescape
from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.input_files import InputError, read_lines
from elmo_tasks.data.json_lines import read_json_lines, shorten_json
from elmo_tasks.data.tokenization import Words, join_words

Mention = tuple[int, int]
"""First and last token, both inclusive, counted from the first token of the document."""
Cluster = list[Mention]

NO_SPEAKER = "-"

_COLUMNS = 12
_WORD, _SPEAKER, _CHAINS = 3, 9, -1
_NO_CHAIN = "-"
_BEGIN = re.compile(r"#begin document \((.*)\); *part *(\d+)\s*")
_END = "#end document"
_MARK = re.compile(r"(\(?)([^()|]+)(\)?)")


@dataclass
class CorefDocument(Metadata):
    """A document, or one part of it, with its text and, if known, its gold clusters."""

    id: str
    sentences: list[list[str]]
    speakers: list[str]
    """The speaker of each token, `-` if unknown."""
    clusters: list[Cluster] | None = None
    """
    The gold clusters in the order of their first mentions, each with its mentions in the order of the text.
    """
    words: Words = field(kw_only=True)
    """All tokens, with their places in the text."""
    joined: int = 0
    """The number of annotated clusters that were joined to others."""

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
        Returns the document of values, which are checked. Clusters with a mention in common are joined to
        one, as in other systems for OntoNotes.

        # Parameters

        words : the words in their text; by default the words are joined by blanks.

        # Raises
        `ConfigurationError`: a value of another type, no sentence, a sentence without words, other numbers of
        speakers than of words, or a span that is outside the document or ends before it starts.
        """
        if not isinstance(id, str):
            raise ConfigurationError(f"doc_key: found {id!r}, expected a string")
        _check_words("sentences", sentences)
        if not sentences or not all(sentences):
            raise ConfigurationError("sentences: found none, or one without words; expected words in each")
        if speakers is None:
            speakers = [[NO_SPEAKER] * len(sentence) for sentence in sentences]
        _check_words("speakers", speakers)
        if len(speakers) != len(sentences):
            raise ConfigurationError(f"speakers: found {len(speakers)} sentences, expected {len(sentences)}")
        for number, (names, sentence) in enumerate(zip(speakers, sentences, strict=True)):
            if len(names) != len(sentence):
                raise ConfigurationError(
                    f"speakers: found {len(names)} in sentence {number}, expected {len(sentence)}"
                )
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


def read_documents(path: Path) -> Iterator[CorefDocument]:
    """
    Yields the documents of a file. It is JSON Lines if the first line that is not blank starts with `{`.

    # Raises
    `InputError` with file and line: a line that does not follow the format, a mention that is not closed or
    not opened, clusters in some documents only, and all errors of `CorefDocument.of`.
    """
    lines = read_lines(path)
    for number, line in lines:
        if line.strip(BLANKS):
            read = _read_json if line.lstrip(BLANKS).startswith("{") else _read_conll
            yield from read(path, chain([(number, line)], lines))


def _read_json(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[CorefDocument]:
    first: tuple[int, bool] | None = None
    for number, content in read_json_lines(path, lines):
        if not isinstance(content, dict) or "sentences" not in content:
            expected = 'a JSON object with "sentences"'
            raise InputError.at(path, number, found=repr(shorten_json(content)), expected=expected)
        try:
            document = from_json(content)
        except ConfigurationError as error:
            raise InputError(f"{path}, line {number}: {error.message}") from error
        has_clusters = document.clusters is not None
        first = first or (number, has_clusters)
        if has_clusters != first[1]:
            found, expected = ('"clusters"', "none") if has_clusters else ('no "clusters"', "some")
            raise InputError.at(path, number, found=found, expected=f"{expected}, as in line {first[0]}")
        yield document


def from_json(content: dict[str, Any]) -> CorefDocument:
    """
    Returns the document of an object in the layout of e2e-coref, which has `sentences`.

    # Raises
    `ConfigurationError`: see `CorefDocument.of`.
    """
    return CorefDocument.of(
        content["sentences"],
        id=content.get("doc_key", ""),
        speakers=content.get("speakers"),
        clusters=content.get("clusters"),
    )


def _read_conll(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[CorefDocument]:
    part: _Part | None = None
    number = 0
    for number, line in lines:
        begin = _BEGIN.fullmatch(line)
        if begin is not None and part is None:
            part = _Part(path, f"{begin[1]}_{int(begin[2])}")
        elif begin is not None:
            raise InputError.at(path, number, found=line, expected=f"{_END!r} before it")
        elif part is None and line.strip(BLANKS):
            expected = "'#begin document (ID); part 000'"
            raise InputError.at(path, number, found=repr(line[:80]), expected=expected)
        elif part is not None and line.startswith(_END):
            yield part.document(number)
            part = None
        elif part is not None:
            part.add(number, line)
    if part is not None:
        raise InputError.at(path, number, found="the end of the file", expected=repr(_END))


class _Part:
    """The lines between `#begin document` and `#end document`."""

    def __init__(self, path: Path, id: str) -> None:
        self._path = path
        self._id = id
        self._sentences: list[list[str]] = [[]]
        self._speakers: list[list[str]] = [[]]
        self._tokens = 0
        self._clusters: dict[str, list[Mention]] = defaultdict(list)
        # The open mentions of each chain: token and line of their start
        self._open: dict[str, list[tuple[int, int]]] = defaultdict(list)

    def add(self, number: int, line: str) -> None:
        """Adds the line of a token, or the empty line after a sentence."""
        row = [cell.strip(BLANKS) for cell in split_cells(line, "\t" if "\t" in line else None)]
        if not any(row):
            if self._sentences[-1]:
                self._sentences.append([])
                self._speakers.append([])
            return
        if len(row) < _COLUMNS:
            found = f"{len(row)} columns in {line[:80]!r}"
            raise InputError.at(self._path, number, found=found, expected=f"at least {_COLUMNS}")
        self._sentences[-1].append(unescape(row[_WORD]))
        self._speakers[-1].append(row[_SPEAKER])
        if row[_CHAINS] != _NO_CHAIN:
            for mark in row[_CHAINS].split("|"):
                self._mark(number, mark)
        self._tokens += 1

    def _mark(self, number: int, mark: str) -> None:
        parts = _MARK.fullmatch(mark)
        if parts is None or not (parts[1] or parts[3]):
            expected = "'-', or '(ID', 'ID)' or '(ID)', joined by '|'"
            raise InputError.at(self._path, number, found=f"the chains {mark!r}", expected=expected)
        opens, name, closes = parts.groups()
        if opens:
            self._open[name].append((self._tokens, number))
        if closes:
            if not self._open[name]:
                found = f"the end of a mention, {mark!r}"
                raise InputError.at(self._path, number, found=found, expected=f"'({name}' before it")
            first, _ = self._open[name].pop()
            self._clusters[name].append((first, self._tokens))

    def document(self, number: int) -> CorefDocument:
        """Returns the document of all lines; `number` is the line of its end."""
        unclosed = [(line, name) for name, starts in self._open.items() for _, line in starts]
        for line, name in sorted(unclosed):
            found = f"the start of a mention, '({name}', that is not closed"
            raise InputError.at(self._path, line, found=found, expected=f"'{name})' after it")
        if not self._tokens:
            raise InputError.at(self._path, number, found="a document without tokens", expected="one or more")
        whole = slice(None if self._sentences[-1] else -1)
        return CorefDocument.of(
            self._sentences[whole],
            id=self._id,
            speakers=self._speakers[whole],
            clusters=list(self._clusters.values()),
        )


def _clusters(clusters: Any, tokens: int) -> list[Cluster]:
    """Checks clusters, joins those with a mention in common, and sorts them in the order of the text."""
    if not isinstance(clusters, list) or not all(isinstance(cluster, list) for cluster in clusters):
        raise ConfigurationError(f"clusters: found {str(clusters)[:80]}, expected lists of lists of spans")
    cluster_of: dict[Mention, set[Mention]] = {}
    for cluster in clusters:
        mentions = {_span(span, tokens) for span in cluster}
        mentions = mentions.union(*(cluster_of.get(mention, ()) for mention in mentions))
        cluster_of |= dict.fromkeys(mentions, mentions)
    different = {id(mentions): sorted(mentions) for mentions in cluster_of.values()}
    return sorted(different.values())


def _span(span: Any, tokens: int) -> Mention:
    if isinstance(span, (list, tuple)) and len(span) == 2 and all(type(end) is int for end in span):
        first, last = span
        if 0 <= first <= last < tokens:
            return first, last
    expected = f"[first token, last token], in order and from 0 to {tokens - 1}"
    raise ConfigurationError(f"clusters: found {str(span)[:80]}, expected {expected}")


def _check_words(name: str, sentences: Any) -> None:
    lists = isinstance(sentences, list) and all(isinstance(part, list) for part in sentences)
    if not lists or not all(isinstance(word, str) for part in sentences for word in part):
        raise ConfigurationError(f"{name}: found {str(sentences)[:80]}, expected a list of lists of strings")


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
    """Returns the text with its mentions and cluster numbers, such as `[0 Ana] lost [1 [0 her] keys]`."""
    starts: dict[int, list[tuple[int, int]]] = defaultdict(list)
    ends: dict[int, str] = defaultdict(str)
    for number, cluster in enumerate(clusters):
        for first, last in cluster:
            starts[first].append((-last, number))
            ends[last] += "]"
    replacements: dict[int, str] = {}
    for place in starts.keys() | ends.keys():
        opened = "".join(f"[{number} " for _, number in sorted(starts[place]))
        replacements[place] = opened + _text(words, (place, place)) + ends[place]
    return _replace_words(words, replacements)


def replace_pronouns(document: CorefDocument, clusters: Sequence[Cluster]) -> str:
    """
    Returns the text with each personal and possessive pronoun replaced by the first mention of its cluster
    that is not a pronoun, possessives with 's: `Ana lost Ana's keys.` The next word tells whether `her` is
    possessive. A pronoun within that mention stays.
    """
    words = document.words
    sentence_starts = {0, *accumulate(map(len, document.sentences))}
    replacements: dict[int, str] = {}
    for cluster in clusters:
        names = [span for span in cluster if not _is_one_of(words, span, _PRONOUNS)]
        for place in (first for first, last in cluster if _is_one_of(words, (first, last), _PERSONAL)):
            if names and not names[0][0] <= place <= names[0][1]:
                name = _name(words, names[0], capital=place in sentence_starts)
                possessive = _is_possessive(words, place, sentence_starts)
                replacements[place] = f"{name}'s" if possessive else name
    return _replace_words(words, replacements)


def _replace_words(words: Words, replacements: Mapping[int, str]) -> str:
    """Returns the text with the words at some places replaced."""
    parts, before = [], 0
    for place in sorted(replacements):
        start, end = words.offsets[place]
        parts += [words.text[before:start], replacements[place]]
        before = end
    return "".join([*parts, words.text[before:]])


def _text(words: Words, span: Mention) -> str:
    return words.text[words.offsets[span[0]][0] : words.offsets[span[1]][1]]


def _is_one_of(words: Words, span: Mention, pronouns: frozenset[str]) -> bool:
    return span[0] == span[1] and words.words[span[0]].lower() in pronouns


def _is_possessive(words: Words, place: int, sentence_starts: set[int]) -> bool:
    word = words.words[place].lower()
    if word != "her":
        return word in _POSSESSIVE
    if place + 1 in sentence_starts:
        return False
    next_word = words.words[place + 1].lower()
    return next_word.isalpha() and next_word not in _AFTER_OBJECT


def _name(words: Words, span: Mention, *, capital: bool) -> str:
    """Returns a mention for another place: without its own 's, its first letter large or small."""
    first, last = span
    last -= first < last and words.words[last] in _GENITIVE
    name = _text(words, (first, last))
    if capital:
        return name[:1].upper() + name[1:]
    return name[:1].lower() + name[1:] if words.words[first].lower() in _NO_NAME else name
