"""
Documents with coreference chains, in columns or as JSON. `docs/data.md` shows the formats.

Three columns of CoNLL-2012 and its like are read: the word, the speaker and the chains, in which the open
mention of a chain that started last ends first. JSON has the keys of e2e-coref, the same made for BERT, with
`subtoken_map`, or PreCo's, with `mention_clusters`; `document_values` gives all records e2e-coref's.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain, groupby, islice
from pathlib import Path
from typing import Any

from elmo_tasks.common.errors import errors_as
from elmo_tasks.data.formats import Fit, Format
from elmo_tasks.data.formats.columns import (
    BLANKS,
    END,
    FORM,
    ConlluSentence,
    Lines,
    begin_document_id,
    ends_document,
    is_conllu,
    line_groups,
    misc_values,
    read_conllu,
    split_cells,
    unescape,
)
from elmo_tasks.data.formats.records import read_json_records
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import (
    InputError,
    Record,
    nonblank_lines,
    read_lines,
    shorten,
    shorten_json,
    value_or_error,
)

NO_SPEAKER = "-"
_UNKNOWN_SPEAKERS = ("-", "_", "")
"""As in OntoNotes, in LitBank, and in the output of e2e-coref's own programs."""
_NO_CHAINS = ("-", "_", "")
_BRACKET = re.compile(r"(\(?)([^()|]+)(\)?)")
_PART = re.compile(r"(.+)\[(\d+)/(\d+)\]")
"""The id of a chain in the brackets of a mention in several parts, such as `e5[1/2]`."""
_NEW_DOCUMENT = "# newdoc"
_FIELDS = re.compile(r"# ?global\.Entity *= *(\S+)")
"""The names of the fields of an opening bracket, which CorefUD and GUM have in different orders."""
_IDS = ("eid", "GRP")
_IN_PARTS = "mentions in several parts read as a whole"
_WITHOUT_WORDS = "mentions of empty nodes left out"
_SAMPLE = 20
"""The lines that show the format of a file."""
Tell = Callable[[str, int, str], object]
"""It is called with the kind, the line and the problem of what is odd."""
_SPECIAL = ("[CLS]", "[SEP]")
_CONTINUED = "##"


def read_documents(
    path: Path, *, encoding: str | None = None, tell: Tell = lambda *_: None
) -> Iterator[Record]:
    """Yields the documents of a file, which is JSON if its first line that is not blank starts with `{`."""
    begin = [line for _, line in islice(nonblank_lines(path, encoding), _SAMPLE)]
    if begin and begin[0].lstrip(BLANKS).startswith("{"):
        return read_json_records(path, encoding=encoding)
    if is_conllu(begin):
        return _read_conllu(path, encoding=encoding, tell=tell)
    return read_conll(path, encoding=encoding)


def document_values(content: dict[str, Any]) -> dict[str, Any]:
    """
    Returns the values of a record in the keys of e2e-coref: `sentences`, `doc_key`, `speakers`, `clusters`.
    Words are made of the pieces for BERT, and clusters of PreCo's; other values are not checked.
    """
    if "sentences" not in content:
        raise InputError(f'the record has no "sentences", only {", ".join(content)}')
    check_sentences("sentences", content["sentences"])
    values: dict[str, Any] = {key: content[key] for key in ("doc_key", "id") if key in content}
    if "subtoken_map" in content:
        return values | _of_pieces(content)
    if any(_SPECIAL[0] in sentence for sentence in content["sentences"]):
        problem = f'"sentences" has {_SPECIAL[0]!r}, a piece for BERT'
        raise InputError(problem, remedy='add "subtoken_map", the number of each piece\'s word')
    values |= {key: content[key] for key in ("sentences", "speakers", "clusters") if key in content}
    if "clusters" not in content and "mention_clusters" in content:
        positions = ((i, j) for i, each in enumerate(content["sentences"]) for j in range(len(each)))
        token_at = {position: token for token, position in enumerate(positions)}

        def of_document(sentence: int, first: int, end: int) -> list[int]:
            return [token_at[sentence, first], token_at[sentence, end - 1]]

        clusters = content["mention_clusters"]
        values["clusters"] = clusters and _mentions(content, "mention_clusters", of_document)
    return values


def check_sentences(name: str, sentences: Any) -> None:
    """Raises `InputError` unless a value is a list of lists of strings."""
    lists = isinstance(sentences, list) and all(isinstance(each, list) for each in sentences)
    if not lists or not all(isinstance(word, str) for each in sentences for word in each):
        raise InputError(f'"{name}" is not a list of lists of strings: {shorten_json(sentences)}')


def _mentions(content: dict[str, Any], name: str, convert: Callable[..., list[int]]) -> list[list[list[int]]]:
    """Returns the clusters of a key, each of their mentions converted to its first and its last token."""
    problem = f'"{name}" has a mention outside of the document, or of another form'
    with errors_as(InputError, problem, (KeyError, TypeError)):
        return [[convert(*mention) for mention in cluster] for cluster in content[name]]


def _of_pieces(content: dict[str, Any]) -> dict[str, Any]:
    segments = content["sentences"]
    pieces = list(chain.from_iterable(segments))

    def one_a_piece(name: str, kind: type, default: Any) -> list[Any]:
        values = content.get(name) or default
        if isinstance(values, list) and all(isinstance(each, list) for each in values):
            values = list(chain.from_iterable(values))
        one_each = isinstance(values, list) and len(values) == len(pieces)
        if not one_each or not all(isinstance(value, kind) for value in values):
            raise InputError(f'"{name}" needs one {kind.__name__} for each of the {len(pieces)} pieces')
        return values

    word_of = one_a_piece("subtoken_map", int, None)
    sentence_of = one_a_piece("sentence_map", int, [[i] * len(each) for i, each in enumerate(segments)])
    speaker_of = one_a_piece("speakers", str, [NO_SPEAKER] * len(pieces))
    sentences: dict[Any, list[str]] = defaultdict(list)
    speakers: dict[Any, list[str]] = defaultdict(list)
    word_at: dict[int, int] = {}
    rows = enumerate(zip(pieces, word_of, sentence_of, speaker_of, strict=True))
    rows_of_words = groupby((row for row in rows if row[1][0] not in _SPECIAL), key=lambda row: row[1][1])
    for number, (_, rows_of_word) in enumerate(rows_of_words):
        indices, values = zip(*rows_of_word, strict=True)
        (first, *others), _, (sentence, *_), (speaker, *_) = zip(*values, strict=True)
        sentences[sentence].append(first + "".join(piece.removeprefix(_CONTINUED) for piece in others))
        speakers[sentence].append(speaker)
        word_at |= dict.fromkeys(indices, number)
    return {
        "sentences": list(sentences.values()),
        "speakers": list(speakers.values()),
        "clusters": content.get("clusters")
        and _mentions(content, "clusters", lambda first, last: [word_at[first], word_at[last]]),
    }


def read_conll(path: Path, *, encoding: str | None = None) -> Iterator[Record]:
    """
    Yields the documents of CoNLL-2012 and its like. Text before the first document, or a document without its
    end, is an `InputError`.
    """
    doc_key, first, line_number = "", 0, 0
    lines: Lines | None = None
    for line_number, line in read_lines(path, encoding=encoding):
        id = begin_document_id(line)
        if lines is not None and id is not None:
            break
        if id is not None:
            doc_key, first, lines = id or path.stem, line_number, []
        elif lines is None and line.strip(BLANKS):
            problem = f"{shorten(line)!r} comes before '#begin document (ID); part 000'"
            raise InputError(problem, where=path, line=line_number)
        elif lines is not None and ends_document(line):
            yield _record(path, first, doc_key, _annotation, lines)
            lines = None
        elif lines is not None:
            lines.append((line_number, line))
    if lines is not None:
        raise InputError(f"the document {doc_key!r} does not end with {END!r}", where=path, line=line_number)


def _read_conllu(
    path: Path, *, encoding: str | None = None, tell: Tell = lambda *_: None
) -> Iterator[Record]:
    """Yields the documents of CorefUD, GUM and GENTLE, whose mentions are in `Entity=` of the last column."""
    document: list[ConlluSentence] = []
    fields = _IDS[0]
    for sentence in read_conllu(path, encoding=encoding, empty_nodes=True):
        if document and any(line.startswith(_NEW_DOCUMENT) for line in sentence.comments):
            yield _record_of_conllu(path, document, fields, tell)
            document = []
        fields = _fields_of_brackets(sentence.comments) or fields
        document.append(sentence)
    yield _record_of_conllu(path, document, fields, tell)


def _fields_of_brackets(lines: Iterable[str]) -> str:
    return next((match[1] for line in lines if (match := _FIELDS.match(line))), "")


def _record_of_conllu(path: Path, document: list[ConlluSentence], fields: str, tell: Tell) -> Record:
    (first, _), *_ = document[0].rows
    keys = dict(line[1:].strip().partition(" = ")[::2] for each in document for line in each.comments)
    doc_key = keys.get("newdoc id", path.stem)
    return _record(path, first, doc_key, _mentions_of_conllu, document, fields, tell)


def _record(
    path: Path, line: int, doc_key: str, make: Callable[..., dict[str, Any]], *arguments: Any
) -> Record:
    ids = {"doc_key": doc_key}
    values = value_or_error(path, line, make, *arguments, ids=ids)
    return Record(path, line, values if isinstance(values, InputError) else ids | values)


def _mentions_of_conllu(document: list[ConlluSentence], fields: str, tell: Tell) -> dict[str, Any]:
    """
    Returns a document of words alone: a mention in several parts is read from its first word to its last, and
    one of empty nodes alone is none.
    """
    position = next((i for i, name in enumerate(fields.split("-")) if name in _IDS), None)
    if position is None:
        raise InputError(f"the brackets have the fields {fields}, and none is {' or '.join(_IDS)}, the chain")
    chains = _Chains()

    def bracket(line: int, match: re.Match[str]) -> str:
        opens, name, closes = match.groups()
        values = name.split("-")
        # A closing bracket may have the id alone.
        name = values[min(position, len(values) - 1)]
        if part := _PART.fullmatch(name):
            name, number, last = part.groups()
            opens, closes = opens if number == "1" else "", closes if number == last else ""
            if opens:
                tell(_IN_PARTS, line, f"{part[0]} is read with the words between its parts")
            elif not closes:
                return ""
        return f"{opens}{name}{closes}"

    for rows, _ in document:
        for line, cells in rows:
            entity = misc_values(cells).get("Entity", "")
            chains.add(line, _BRACKET.sub(partial(bracket, line), entity), is_word=cells[0].isdecimal())
    for line in chains.left_out:
        tell(_WITHOUT_WORDS, line, "the mention has no words, only empty nodes")
    words = ([cells[FORM] for _, cells in rows if cells[0].isdecimal()] for rows, _ in document)
    return {"sentences": list(filter(None, words)), "clusters": chains.clusters()}


_WORD_OF_FEW = {3: 1, 5: 3}
"""The column of the word in files of few columns, by their number."""
_MIN_COLUMNS, _NUMBER, _WORD, _SPEAKER = 12, 2, 3, 9
"""The columns of CoNLL-2012."""
_WORD_OF_SEMEVAL = 1


def _word_and_speaker(row: list[str]) -> tuple[int, int | None]:
    """Returns the columns of the word and of the speaker, by the first row of a document."""
    if len(row) in _WORD_OF_FEW:
        return _WORD_OF_FEW[len(row)], None
    is_semeval = len(row) >= _MIN_COLUMNS and row[0] == "1" and row[_NUMBER] not in ("0", "1")
    return (_WORD_OF_SEMEVAL, None) if is_semeval else (_WORD, _SPEAKER)


def _annotation(lines: Lines) -> dict[str, Any]:
    sentences: list[list[str]] = []
    speakers: list[list[str]] = []
    chains = _Chains()
    size, word, speaker = 0, _WORD, None
    for group in line_groups(each for each in lines if not each[1].startswith("#")):
        sentences.append([])
        speakers.append([])
        for line_number, line in group:
            # Some rows end in a tab.
            row = split_cells(line.rstrip(BLANKS), "\t" if "\t" in line else None)
            row = [cell.strip(BLANKS) for cell in row]
            if not size:
                size, (word, speaker) = len(row), _word_and_speaker(row)
            is_few = size in _WORD_OF_FEW
            if len(row) != size if is_few else len(row) < _MIN_COLUMNS:
                needed = size if is_few else f"{_MIN_COLUMNS} or more, or 3: number, word, chains"
                problem = f"{shorten(' '.join(row))!r} has {len(row)} columns, but it needs {needed}"
                raise InputError(problem, line=line_number)
            if speaker is not None and not row[_NUMBER].isdecimal():
                column = f"column {_NUMBER + 1}"
                problem = f"{row[_NUMBER]!r} in {column} is not the number of a token of CoNLL-2012"
                raise InputError(problem, line=line_number)
            name = NO_SPEAKER if speaker is None else row[speaker]
            sentences[-1].append(unescape(row[word]))
            speakers[-1].append(NO_SPEAKER if name in _UNKNOWN_SPEAKERS else name)
            chains.add(line_number, row[-1])
    return {"sentences": sentences, "speakers": speakers, "clusters": chains.clusters()}


class _Chains:
    """The mentions of a document, by the brackets of its tokens."""

    def __init__(self) -> None:
        self._tokens = 0
        self._mentions: dict[str, list[tuple[int, int]]] = defaultdict(list)
        self._open: dict[str, list[tuple[int, int]]] = defaultdict(list)
        """The token and the line at which the open mentions of each chain start."""
        self.left_out: list[int] = []
        """The lines of mentions without words."""

    def add(self, line_number: int, cell: str, *, is_word: bool = True) -> None:
        """Adds the brackets of a token, or of what stands between two tokens and is none itself."""
        for brackets in () if cell in _NO_CHAINS else cell.split("|"):
            parts: list[tuple[str, str, str]] = _BRACKET.findall(brackets)
            complete = "".join(map("".join, parts)) == brackets and all(part[0] or part[2] for part in parts)
            if not parts or not complete:
                remedy = "write '-', or '(ID', 'ID)' or '(ID)', joined by '|'"
                raise InputError(f"{brackets!r} is not a bracket of a chain", line=line_number, remedy=remedy)
            for opens, name, closes in parts:
                if opens:
                    self._open[name].append((self._tokens, line_number))
                if closes and not self._open[name]:
                    problem = f"'{name})' ends a mention that '({name}' does not start"
                    raise InputError(problem, line=line_number)
                if closes:
                    first, last = self._open[name].pop()[0], self._tokens - (not is_word)
                    if first <= last:
                        self._mentions[name].append((first, last))
                    else:
                        self.left_out.append(line_number)
        self._tokens += is_word

    def clusters(self) -> list[list[tuple[int, int]]]:
        unclosed = [(line, name) for name, starts in self._open.items() for _, line in starts]
        if unclosed:
            line, name = min(unclosed)
            raise InputError(f"'({name}' starts a mention that '{name})' does not end", line=line)
        return list(self._mentions.values())


def _fit_json(sample: Sample) -> Fit:
    values = sample.first_values
    if "sentences" not in values:
        return Fit.NO
    if values.get("ner") and not values.get("clusters"):  # entities of DyGIE++ alone
        return Fit.POSSIBLE
    keys = {"clusters", "mention_clusters", "speakers", "subtoken_map"}
    return Fit.CERTAIN if values.keys() & keys else Fit.LIKELY


def _fit_conllu(sample: Sample) -> Fit:
    has_mentions = is_conllu(sample.lines) and any("Entity=" in line for line in sample.lines)
    has_chains = not {*(_fields_of_brackets(sample.lines) or _IDS[0]).split("-")}.isdisjoint(_IDS)
    return Fit.CERTAIN if has_mentions and has_chains else Fit.NO


def _fit_conll(sample: Sample) -> Fit:
    if not sample.lines or begin_document_id(sample.lines[0]) is None:
        return Fit.NO
    rows = [line.strip(BLANKS) for line in sample.lines if not line.startswith("#")]
    has_brackets = any(re.search(r"[\s|](\([^\s()*]+\)?|[^\s()*]+\))$", row) for row in rows)
    return Fit.CERTAIN if has_brackets else Fit.POSSIBLE


FORMATS = (
    Format("json_lines", _fit_json, read_json_records),
    Format("conll2012", _fit_conll, read_conll),
    Format("conllu", _fit_conllu, _read_conllu),
)
