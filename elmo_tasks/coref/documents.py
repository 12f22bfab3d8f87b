"""
Documents with coreference chains, and the formats that they are read from.

CoNLL-2012 (https://conll.cemantix.org/2012/data.html) has one token a line in columns, an empty line between
sentences, and `#begin document (ID); part 000` and `#end document` around each part of a document. Columns
are separated by tabs, or by runs of blanks in a line without tabs. Three are read: the word (4th), the
speaker (10th) and the chains (last). The chains are `-`, `_` or empty, or brackets, joined by `|` or by
nothing: `(12` where a mention of chain 12 starts, `12)` where it ends, `(12)` for one token. The open mention
of a chain that started last ends first. `/.` and `/?`, which end some sentences of OntoNotes, are read as `.`
and `?`. GUM and OntoGUM have three columns: number, word and chains; files for the CoNLL scorer five:
document, part, number, word and chains. SemEval-2010 has 17 or more: number, word, others and chains. Other
lines that begin with `#` are comments.

JSON Lines have one object a line, of one of three layouts:

- e2e-coref: `{"doc_key": "...", "sentences": [["..."]], "speakers": [["..."]], "clusters": [[[first,
  last]]]}`. Only `sentences` is required.
- The same, made for BERT, with `subtoken_map`, the index of each piece's word. Words are put together again,
  without `[CLS]` and `[SEP]`; `sentence_map`, the index of each piece's sentence, makes the sentences.
- PreCo: `{"id": "...", "sentences": [["..."]], "mention_clusters": [[[sentence, first, end]]]}`, where `end`
  is the token after the last.

All documents of a file have clusters, or none has. An unknown speaker is `-`, as in OntoNotes, `_`, as in
LitBank, or empty, as in the output of e2e-coref's own programs.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import accumulate, chain
from pathlib import Path
from typing import Any

from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.fields import Metadata, ids_of
from elmo_tasks.data.formats.columns import (
    BLANKS,
    END,
    begin_document_id,
    ends_document,
    split_cells,
    unescape,
)
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    named_by,
    parse_json,
    read_lines,
    shorten_json,
)
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import Words

Mention = tuple[int, int]
"""First and last token, both inclusive, counted from the first token of the document."""
Cluster = list[Mention]

NO_SPEAKER = "-"

_COLUMNS = 12
_SPEAKER = 9
_WORD_OF_FEW = {3: 1, 5: 3}
"""The column of the word in files with fewer columns, by their number."""
_NUMBER, _WORD = 2, 3
_WORD_OF_SEMEVAL = 1
_NOTHING = ("-", "_", "")
_BRACKET = re.compile(r"(\(?)([^()|]+)(\)?)")
_SPECIAL = ("[CLS]", "[SEP]")
_CONTINUED = "##"


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
    """The number of annotated clusters that were joined to others."""
    line = 0

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
        Returns the document of values, which are checked. Clusters with a mention in common are joined, as in
        other systems for OntoNotes. `words` are the words in their text, by default joined by blanks.

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
        for sentence_index, (names, sentence) in enumerate(zip(speakers, sentences, strict=True)):
            if len(names) != len(sentence):
                raise ConfigurationError(
                    f"speakers: found {len(names)} in sentence {sentence_index}, expected {len(sentence)}"
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


def read_documents(path: Path, *, encoding: str = "utf-8") -> Iterator[Callable[[], CorefDocument]]:
    """
    Yields a function for each document of a file, which makes it. The file is JSON Lines if its first line
    that is not blank starts with `{`. Both raise `InputError`, with file and line.
    """
    lines = read_lines(path, encoding=encoding)
    for line_number, line in lines:
        if line.strip(BLANKS):
            all_lines = chain([(line_number, line)], lines)
            if line.lstrip(BLANKS).startswith("{"):
                yield from (partial(_read_json, path, *each) for each in all_lines if each[1].strip())
            else:
                yield from _conll_records(path, all_lines)


def _read_json(path: Path, line_number: int, line: str) -> CorefDocument:
    content = parse_json(line, path, line_number)
    if not isinstance(content, dict) or "sentences" not in content:
        expected = 'a JSON object with "sentences"'
        raise InputError.at(path, line_number, found=repr(shorten_json(content)), expected=expected)
    with named_by(ids_of(content)):
        try:
            document = from_json(content)
        except ConfigurationError as error:
            sentences = content["sentences"]
            kind = NoWordsError if isinstance(sentences, list) and not any(sentences) else InputError
            raise kind(error.message, where=path, line=line_number) from error
    document.line = line_number
    return document


def from_json(content: dict[str, Any]) -> CorefDocument:
    """
    Returns the document of an object with `sentences`, in the layout of e2e-coref, of its successors for
    BERT, or of PreCo.

    # Raises
    `ConfigurationError`: see `CorefDocument.of`; pieces of words without `subtoken_map`.
    """
    _check_words("sentences", content["sentences"])
    if content.get("speakers") is not None:
        _check_words("speakers", content["speakers"])
    if "subtoken_map" in content:
        content = content | _of_pieces(content)
    elif any(_SPECIAL[0] in sentence for sentence in content["sentences"]):
        raise ConfigurationError(
            f'sentences: found {_SPECIAL[0]!r}, a piece for BERT, expected words, or "subtoken_map", the '
            "number of each piece's word"
        )
    clusters = content.get("clusters")
    if "clusters" not in content and "mention_clusters" in content:
        clusters = _of_sentences(content["mention_clusters"], content["sentences"])
    document = CorefDocument.of(
        content["sentences"],
        id=content["doc_key"] if "doc_key" in content else str(content.get("id", "")),
        speakers=content.get("speakers"),
        clusters=clusters,
    )
    document.ids = ids_of(content)
    return document


def _of_pieces(content: dict[str, Any]) -> dict[str, Any]:
    """Returns the sentences, speakers and clusters of words whose pieces are the tokens of `content`."""
    segments = content["sentences"]
    pieces = list(chain.from_iterable(segments))

    def integers(name: str, values: Any) -> list[int]:
        if isinstance(values, list) and all(isinstance(part, list) for part in values):
            values = list(chain.from_iterable(values))
        if not isinstance(values, list) or any(type(value) is not int for value in values):
            raise ConfigurationError(f"{name}: found {str(values)[:80]}, expected a list of whole numbers")
        if len(values) != len(pieces):
            raise ConfigurationError(f"{name}: found {len(values)} numbers, expected {len(pieces)}")
        return values

    word_of = integers("subtoken_map", content["subtoken_map"])
    segment_of = [[index] * len(segment) for index, segment in enumerate(segments)]
    sentence_of = integers("sentence_map", content.get("sentence_map", segment_of))
    speaker_of = list(chain.from_iterable(content.get("speakers") or [[NO_SPEAKER] * len(pieces)]))
    if len(speaker_of) != len(pieces):
        raise ConfigurationError(f"speakers: found {len(speaker_of)}, expected {len(pieces)}")
    words: dict[int, str] = {}
    sentences: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for index, piece in enumerate(pieces):
        word_id = word_of[index]
        if piece in _SPECIAL:
            continue
        if word_id in words and word_id != next(reversed(words)):
            raise ConfigurationError(
                f"subtoken_map: found {word_id} again, expected numbers that do not fall"
            )
        if word_id not in words:
            sentences[sentence_of[index]].append((word_id, speaker_of[index]))
        words[word_id] = words[word_id] + piece.removeprefix(_CONTINUED) if word_id in words else piece
    index_of = {word_id: index for index, word_id in enumerate(words)}

    def of_words(span: Any) -> list[int]:
        word_ids = [word_of[end] for end in _span(span, len(pieces))]
        if not all(word_id in index_of for word_id in word_ids):
            raise ConfigurationError(f"clusters: found {span}, expected pieces of words")
        return [index_of[word_id] for word_id in word_ids]

    clusters = content.get("clusters")
    return {
        "sentences": [[words[word_id] for word_id, _ in sentence] for sentence in sentences.values()],
        "speakers": [[speaker for _, speaker in sentence] for sentence in sentences.values()],
        "clusters": clusters and [list(map(of_words, cluster)) for cluster in _lists("clusters", clusters)],
    }


def _of_sentences(clusters: Any, sentences: list[list[str]]) -> list[list[Mention]]:
    """Returns the clusters of PreCo, whose mentions are [sentence, first token, token after the last]."""
    starts = [0, *accumulate(map(len, sentences))]

    def mention(span: Any) -> Mention:
        if isinstance(span, list) and len(span) == 3 and all(type(value) is int for value in span):
            sentence, first, end = span
            if 0 <= sentence < len(sentences) and 0 <= first < end <= len(sentences[sentence]):
                return starts[sentence] + first, starts[sentence] + end - 1
        expected = "[sentence, first token, token after the last] in it"
        raise ConfigurationError(f"mention_clusters: found {str(span)[:80]}, expected {expected}")

    return [list(map(mention, cluster)) for cluster in _lists("mention_clusters", clusters)]


def _conll_records(path: Path, lines: Iterable[tuple[int, str]]) -> Iterator[Callable[[], CorefDocument]]:
    part: _Part | None = None
    line_number = 0
    for line_number, line in lines:
        id = begin_document_id(line)
        if id is not None and part is None:
            part = _Part(path, id or path.stem, line_number)
        elif id is not None:
            raise InputError.at(path, line_number, found=line, expected=f"{END!r} before it")
        elif part is None and line.strip(BLANKS):
            expected = "'#begin document (ID); part 000'"
            raise InputError.at(path, line_number, found=repr(line[:80]), expected=expected)
        elif part is not None and ends_document(line):
            yield part.document
            part = None
        elif part is not None:
            part.lines.append((line_number, line))
    if part is not None:
        raise InputError.at(path, line_number, found="the end of the file", expected=repr(END))


class _Part:
    def __init__(self, path: Path, id: str, first: int) -> None:
        self.lines: list[tuple[int, str]] = []
        self._path, self._id, self._first = path, id, first
        self._columns = 0
        self._is_semeval = False
        self._sentences: list[list[str]] = [[]]
        self._speakers: list[list[str]] = [[]]
        self._tokens = 0
        self._clusters: dict[str, list[Mention]] = defaultdict(list)
        # The open mentions of each chain: token and line of their start
        self._open: dict[str, list[tuple[int, int]]] = defaultdict(list)

    def _add(self, line_number: int, line: str) -> None:
        row = [cell.strip(BLANKS) for cell in split_cells(line, "\t" if "\t" in line else None)]
        if not any(row):
            if self._sentences[-1]:
                self._sentences.append([])
                self._speakers.append([])
            return
        if not self._columns:
            self._columns = len(row)
            self._is_semeval = len(row) >= _COLUMNS and row[0] == "1" and row[_NUMBER] not in ("0", "1")
        columns = self._columns
        few = columns in _WORD_OF_FEW
        if len(row) != columns if few else len(row) < _COLUMNS:
            found = f"{len(row)} columns in {line[:80]!r}"
            expected = f"{columns} as before" if few else f"at least {_COLUMNS}, or 3: number, word, chains"
            raise InputError.at(self._path, line_number, found=found, expected=expected)
        of_2012 = not few and not self._is_semeval
        if of_2012 and not row[_NUMBER].isdecimal():
            found = f"{row[_NUMBER]!r} in column {_NUMBER + 1}"
            raise InputError.at(
                self._path, line_number, found=found, expected="the token's number, of CoNLL-2012"
            )
        word = _WORD_OF_SEMEVAL if self._is_semeval else _WORD_OF_FEW.get(columns, _WORD)
        self._sentences[-1].append(unescape(row[word]))
        speaker = row[_SPEAKER] if of_2012 else NO_SPEAKER
        self._speakers[-1].append(NO_SPEAKER if speaker in _NOTHING else speaker)
        if row[-1] not in _NOTHING:
            for brackets in row[-1].split("|"):
                self._add_brackets(line_number, brackets)
        self._tokens += 1

    def _add_brackets(self, line_number: int, brackets: str) -> None:
        parts: list[tuple[str, str, str]] = _BRACKET.findall(brackets)
        if "".join(map("".join, parts)) != brackets or not all(opens or closes for opens, _, closes in parts):
            parts = []
        if not parts:
            expected = "'-', or '(ID', 'ID)' or '(ID)', joined by '|'"
            raise InputError.at(self._path, line_number, found=f"the chains {brackets!r}", expected=expected)
        for opens, name, closes in parts:
            if opens:
                self._open[name].append((self._tokens, line_number))
            if closes:
                if not self._open[name]:
                    found = f"the end of a mention, '{name})'"
                    raise InputError.at(self._path, line_number, found=found, expected=f"'({name}' before it")
                first, _ = self._open[name].pop()
                self._clusters[name].append((first, self._tokens))

    def document(self) -> CorefDocument:
        """Returns the document of the lines."""
        with named_by({"doc_key": self._id}):
            return self._document()

    def _document(self) -> CorefDocument:
        for line_number, line in self.lines:
            if not line.startswith("#"):
                self._add(line_number, line)
        unclosed = [(line, name) for name, starts in self._open.items() for _, line in starts]
        for start, name in sorted(unclosed):
            found = f"the start of a mention, '({name}', that is not closed"
            raise InputError.at(self._path, start, found=found, expected=f"'{name})' after it")
        if not self._tokens:
            end = self._first + len(self.lines) + 1
            raise InputError.at(self._path, end, found="a document without tokens", expected="one or more")
        with_tokens = slice(None if self._sentences[-1] else -1)
        document = CorefDocument.of(
            self._sentences[with_tokens],
            id=self._id,
            speakers=self._speakers[with_tokens],
            clusters=list(self._clusters.values()),
        )
        document.ids, document.line = {"doc_key": self._id}, self._first
        return document


def _lists(name: str, clusters: Any) -> list[list[Any]]:
    if not isinstance(clusters, list) or not all(isinstance(cluster, list) for cluster in clusters):
        raise ConfigurationError(f"{name}: found {str(clusters)[:80]}, expected lists of lists of spans")
    return clusters


def _clusters(clusters: Any, tokens: int) -> list[Cluster]:
    """Checks clusters, joins those with a mention in common, and sorts them in the order of the text."""
    cluster_of: dict[Mention, set[Mention]] = {}
    for cluster in _lists("clusters", clusters):
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
