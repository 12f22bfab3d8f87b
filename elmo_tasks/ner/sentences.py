r"""
Sentences with entities, in the formats of files that have them.

| format | a file | |
| --- | --- | --- |
| `columns` | `EU NNP B-NP B-ORG` | CoNLL-2003, W-NUT and the like; words alone are read without tags |
| `conll2012` | `nw/wsj 0 0 EU NNP ... (ORG) -` | OntoNotes; the entities are in column 11 |
| `conllu` | ten columns, `name=B-ORG` in the last | NorNE; `NER=B-org`: hr500k, ParlaMint |
| `json`, `parquet` | `{"tokens": ["EU"], "ner_tags": ["B-ORG"]}` | names, or numbers of classes |
| | `{"tokens": ["EU"], "entities": [{"type": "ORG", "start": 0, "end": 1}]}` | SpERT; ends are excluded |
| | `{"text": "EU", "label": [[0, 2, "ORG"]]}` | doccano; `spans`: Prodigy; Label Studio's JSON-MIN |
| | `{"text": "EU", "label": {"ORG": {"EU": [[0, 1]]}}}` | CLUENER; ends are included |
| | `["EU", {"entities": [[0, 2, "ORG"]]}]` | spaCy's training data, also in a list |
| `csv` | `Sentence: 1,EU,NNP,B-org` | GMB |
| `wikiner` | `EU\|NNP\|I-ORG rejects\|VBZ\|O` | WikiNER, a sentence a line |
| `atis` | `seq.in`, and `seq.out` beside it | ATIS, SNIPS |
| `spacy` | `.spacy` | spaCy's `DocBin` |
"""

import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import groupby, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

from elmo_tasks.data.fields import ids_of
from elmo_tasks.data.formats import conllu
from elmo_tasks.data.formats.columns import BLANKS, ColumnLayout, Lines, line_groups, split_cells, unescape
from elmo_tasks.data.formats.delimited import read_delimited
from elmo_tasks.data.formats.records import (
    ANSWER,
    RecordFormat,
    class_names,
    is_parquet,
    read_records,
    record_format,
)
from elmo_tasks.data.input_files import (
    InputError,
    NoWordsError,
    Record,
    named_by,
    read_lines,
    shorten,
    shorten_json,
)
from elmo_tasks.data.tag_schemes import Span
from elmo_tasks.data.tokenization import Words, join_words

if TYPE_CHECKING:
    from spacy.tokens import Span as SpacySpan

WORD, TAG = "word", "tag"
CONLL_2003 = (WORD, "pos", "chunk", TAG)
NerFormat = Literal[
    "auto", "columns", "conll2012", "conllu", "json", "parquet", "csv", "wikiner", "atis", "spacy"
]
FORMATS = get_args(NerFormat)[1:]
SEPARATORS = ("-DOCSTART-",)
_COMMENTS = ("# ", "#\t", "## ", "###", *SEPARATORS)
_DOCUMENT = ("#begin document", "# begin document", "#end document", "# end document")
_COLUMNS_2012, _WORD_2012, _ENTITY_2012 = 12, 3, 10
_COLUMNS_CONLLU = 10
_NAME = re.compile(r"(?:^|\|)(?:name|ner)=([^|]*)", re.IGNORECASE)
_WIKINER = re.compile(r"\S+\|[^|\s]+\|(?:O|[A-Z]-\S+)")
_CSV = (
    ("sentence #", "sentence_id", "sentence"),
    ("word", "words", "token"),
    ("tag", "tags", "labels", "label"),
)
_TOKENS, _TAGS = ("tokens", "words"), ("ner_tags", "tags", "ner", "labels", "label")
_TEXT, _SPANS = ("text", "sentence", "data"), ("label", "labels", "spans", "entities")
_TOKEN_SPANS = ("entities", "spans")
_CHUNKS = {"B-NP", "I-NP", "B-VP", "I-VP", "B-NC", "I-NC", "B-VC", "I-VC"}
_TAG = re.compile(r"[BIESULM]-\S+")
_OUTSIDE = "O"
_NAME_OF_WORDS = re.compile("(token|word|form|text)s?", re.IGNORECASE)
_NAME_OF_TAGS = re.compile(
    r"((ner?|iob2?|bio|entity)[-_ ]?)?(tag|label)s?|ner|iob2?|bio|ne-\S+", re.IGNORECASE
)
"""The names of columns in a header, such as `TOKEN` and `NE-COARSE-LIT` of HIPE."""
_ANNOTATION = "annotation_id"
"""The field of the records that Label Studio's annotators have seen."""
_SAMPLE = 1000
"""The records whose texts tell their script."""
_ACCEPTED = "accept"
"""The decision `ANSWER` of Prodigy's annotators for a record that is right."""
_IN, _OUT, _INTENTS = "seq.in", "seq.out", "label"


class CharacterSpan(NamedTuple):
    """The characters `start` to `end - 1` of a text, and their label."""

    start: int
    end: int
    label: str


@dataclass(slots=True)
class FileSentence:
    """A sentence of a file: its words, their lines or its own, and its tags or entities, if any."""

    words: list[str]
    lines: Sequence[int]
    tags: list[str] | None = None
    spans: list[Span] | None = None
    characters: list[CharacterSpan] | None = None
    """Entities of a text that the reader has split into words."""
    text: Words | None = None
    ids: Mapping[str, Any] | None = None

    @property
    def content(self) -> Words:
        """The words with their text."""
        return self.text or join_words(self.words)

    def line(self, position: int = 0) -> int:
        """Returns the line of a word."""
        return self.lines[position] if len(self.lines) > 1 else self.lines[0]

    @property
    def tagged(self) -> bool:
        return not self.tags is self.spans is self.characters is None


@dataclass
class Settings:
    """The settings of a reader that formats need; `split` splits a text into words."""

    layout: ColumnLayout
    split: Callable[[str], Words]
    tag_names: Sequence[str] | None
    encoding: str
    every_record: bool = False


Make = Callable[[], FileSentence | None]
"""Makes a sentence of a file; `None` for a record that annotators have rejected, unless each is wanted."""


def read_sentences(path: Path, format: str, settings: Settings) -> Iterator[Make]:
    """Yields a function for each sentence, which makes it, or raises `InputError` if it is bad."""
    return _READERS[format](path, settings)


def found_format(path: Path, settings: Settings) -> str:
    """Returns the format of a file, by its name or its first lines; `columns` if it looks like no other."""
    if is_parquet(path):
        return "parquet"
    if path.suffix == ".spacy":
        return "spacy"
    if path.name.endswith(_IN):
        return "atis"
    first = ""
    for _, line in read_lines(path, encoding=settings.encoding):
        if line.startswith(_DOCUMENT):
            first = line
        elif line.strip(BLANKS) and not line.startswith(("#", *SEPARATORS)):
            break
    else:
        return "columns"
    cells = split_cells(line, None)
    if first and len(cells) >= _COLUMNS_2012 and cells[2].isdecimal():
        return "conll2012"
    if (
        line.count("\t") == _COLUMNS_CONLLU - 1
        and cells[0][0] == "1"
        and len(settings.layout.names) < _COLUMNS_CONLLU
    ):
        return "conllu"
    if all(map(_WIKINER.fullmatch, cells)) and len(settings.layout.names) > 1:
        return "wikiner"
    if record_format(path, encoding=settings.encoding) == "json":
        return "json"
    header = re.split("[,;\t]", line.lower().replace('"', ""))
    return "csv" if all(any(name in header for name in names) for names in _CSV) else "columns"


def has_tags(path: Path, encoding: str) -> bool:
    """Tells whether the first record of a file has words and a list of tags, in whatever form."""
    with suppress(InputError, StopIteration):
        if record_format(path, encoding=encoding) != "delimited":
            record = next(read_records(path, encoding=encoding))
            names = {key.lower() for key, value in record.values.items() if isinstance(value, list)}
            return not names.isdisjoint(_TOKENS) and not names.isdisjoint(_TAGS)
    return False


def unsplit_text(path: Path, format: str, encoding: str) -> str:
    """Returns the texts of the first records of a file that come without their words, one after another."""
    texts: list[str] = []
    if format in get_args(RecordFormat):
        with suppress(InputError):  # the reader tells of errors
            for record in islice(read_records(path, encoding=encoding), _SAMPLE):
                values = {key.lower(): value for key, value in record.values.items()}
                if not any(name in values for name in _TOKENS):
                    texts += [values[name] for name in _TEXT if isinstance(values.get(name), str)]
    return "".join(texts)


def column_keys(lines: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Yields the keys of a reader for each of the `found_columns`; none for those of CoNLL-2003."""
    found = list(found_columns(lines))
    for names, delimiter in found:
        if tuple(names) == CONLL_2003:
            yield {}
        else:
            yield {"columns": names} | ({"delimiter": delimiter} if delimiter else {})
    if not found:
        yield {}


def found_columns(lines: Sequence[str]) -> Iterator[tuple[list[str], str | None]]:
    """
    Yields the names of the columns of lines, and what separates them, for each column that may be the tags,
    the last first. The words are in the first other column that is not of numbers. A header names both.
    """
    delimiter = "\t" if any("\t" in line for line in lines) else None
    rows = [split_cells(line, delimiter) for line in lines if not line.startswith(_COMMENTS)]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    rows = [row for row in rows if len(row) == width]
    header = rows.pop(0) if rows and _has_names(rows[0]) else None
    columns = [{row[index] for row in rows} for index in range(width)]
    tags = _tag_columns(columns)
    words = [index for index in range(width) if index not in tags and not _are_numbers(columns[index])]
    if header:
        tags = [index for index in tags if _NAME_OF_TAGS.fullmatch(header[index])]
        words = [index for index in words if _NAME_OF_WORDS.fullmatch(header[index])]
    for tag in reversed(tags if words else []):
        if (width, words[0], tag) == (4, 0, 3):
            names = list(CONLL_2003)
        else:
            names = [{words[0]: WORD, tag: TAG}.get(index, f"column{index + 1}") for index in range(width)]
        yield names, delimiter


def _has_names(cells: list[str]) -> bool:
    return any(map(_NAME_OF_WORDS.fullmatch, cells)) and any(map(_NAME_OF_TAGS.fullmatch, cells))


def _tag_columns(columns: Sequence[set[str]]) -> list[int]:
    """
    Returns the columns that may be the tags: those with nothing but `O` and tags with prefixes. If none has
    a prefix, those with `O`, without the one of most values, which are the words: "O" is a word, too.
    """
    possible = [index for index, values in enumerate(columns) if values and not values & _CHUNKS]
    tags = [index for index in possible if all(map(_TAG.fullmatch, columns[index] - {_OUTSIDE}))]
    if any(columns[index] - {_OUTSIDE} for index in tags):
        return tags
    texts = [index for index, values in enumerate(columns) if not _are_numbers(values)]
    words = max(texts, key=lambda index: len(columns[index]), default=None)
    return [index for index in possible if _OUTSIDE in columns[index] and index != words]


def _are_numbers(values: set[str]) -> bool:
    return all(re.fullmatch(r"[\d._-]*", value) for value in values)


def without_companions(files: list[Path]) -> list[Path]:
    """Returns the files without those that another is read with: tags and intents of ATIS."""
    companions = {
        file.with_name(file.name.removesuffix(_IN) + name)
        for file in files
        if file.name.endswith(_IN)
        for name in (_OUT, _INTENTS)
    }
    return [file for file in files if file not in companions]


def _columns(path: Path, settings: Settings) -> Iterator[Make]:
    layout, encoding = _without_tags(path, settings) or settings.layout, settings.encoding
    word = layout.names.index(WORD)
    tag = layout.names.index(TAG) if TAG in layout.names else None
    numbered = read_lines(path, encoding=encoding)
    if tag is not None:
        numbered = _without_header(numbered, layout, word, tag)
    for lines in layout.sentences(path, numbered, separators=SEPARATORS):
        yield partial(_rows, path, layout, lines, word, tag)


def _without_header(
    lines: Iterator[tuple[int, str]], layout: ColumnLayout, word: int, tag: int
) -> Iterator[tuple[int, str]]:
    """Yields numbered lines without a first row that names the columns of words and of tags."""
    for line_number, line in lines:
        if line.strip(BLANKS):
            cells = layout.split(line)
            is_header = layout.fits(cells) and _has_names([cells[word], cells[tag]])
            yield from () if is_header else [(line_number, line)]
            break
    yield from lines


def _without_tags(path: Path, settings: Settings) -> ColumnLayout | None:
    """Returns the layout of a file whose lines all hold a word alone, or all columns but the last."""
    layout, word = settings.layout, settings.layout.names.index(WORD)
    lines = (line.rstrip(BLANKS) for _, line in read_lines(path, encoding=settings.encoding))
    rows = (layout.split(line) for line in lines if line and not line.startswith(_COMMENTS))
    columns: list[set[str]] = []
    for cells in rows:
        columns = columns or [set() for _ in cells]
        if len(cells) != len(columns) or len(cells) >= len(layout.names):
            return None
        for values, cell in zip(columns, cells, strict=True):
            values.add(cell)
    width = len(columns)
    if width == 1 and not any(re.search(f"[{BLANKS}]", cell) for cell in columns[0]):
        return ColumnLayout([WORD], None, needed=[WORD], comments=layout.comments)
    all_but_tag = width == len(layout.names) - 1 and layout.names[-1] == TAG
    if all_but_tag and width - 1 not in _tag_columns(columns) and not _are_numbers(columns[word]):
        return ColumnLayout(layout.names[:-1], layout.delimiter, needed=[WORD], comments=layout.comments)
    return None


def _rows(path: Path, layout: ColumnLayout, lines: Lines, word: int, tag: int | None) -> FileSentence:
    rows = [layout.row(path, line_number, line) for line_number, line in lines]
    words = [cells[word] for cells in rows]
    tags = None if tag is None else [cells[tag] for cells in rows]
    return _sentence(path, words, [line_number for line_number, _ in lines], tags)


def _sentence(path: Path, words: list[str], lines: Sequence[int], tags: list[str] | None) -> FileSentence:
    sentence = FileSentence(words, lines, tags)
    if not all(words):
        raise InputError.at(path, sentence.line(words.index("")), found="an empty word", expected="a word")
    return sentence


def _conll2012(path: Path, settings: Settings) -> Iterator[Make]:
    def make(lines: Lines) -> FileSentence:
        rows = []
        for line_number, line in lines:
            rows.append(split_cells(line, None))
            if len(rows[-1]) < _COLUMNS_2012:
                found = f"{len(rows[-1])} columns in {shorten(line)!r}"
                raise InputError.at(
                    path, line_number, found=found, expected=f"{_COLUMNS_2012} or more, of CoNLL-2012"
                )
        words = [unescape(cells[_WORD_2012]) for cells in rows]
        line_numbers = [line_number for line_number, _ in lines]
        return _sentence(path, words, line_numbers, [cells[_ENTITY_2012] for cells in rows])

    for lines in line_groups(read_lines(path, encoding=settings.encoding), separators=_DOCUMENT):
        yield partial(make, lines)


def _conllu(path: Path, settings: Settings) -> Iterator[Make]:
    def make(sentence: conllu.ConlluSentence) -> FileSentence:
        names = [_NAME.search(cells[conllu.MISC]) for _, cells in sentence.rows]
        tags = [name[1] if name else "O" for name in names] if tagged else None
        words = [cells[conllu.FORM] for _, cells in sentence.rows]
        return _sentence(path, words, [line_number for line_number, _ in sentence.rows], tags)

    sentences = list(conllu.read_conllu(path, encoding=settings.encoding))
    tagged = any(_NAME.search(cells[conllu.MISC]) for each in sentences for _, cells in each.rows)
    for sentence in sentences:
        yield partial(make, sentence)


def _csv(path: Path, settings: Settings) -> Iterator[Make]:
    """Reads a row a token; the id of the sentence is in each row, or in the first of each sentence."""

    def make(rows: list[tuple[int, Record, list[str]]]) -> FileSentence:
        lines, words, tags = [], [], []
        for _, record, cells in rows:
            _, word, tag = cells or _csv_cells(record)
            lines.append(record.line)
            words.append(word)
            tags.append(tag)
        return _sentence(path, words, lines, tags)

    sentence, index = "", 0
    numbered: list[tuple[int, Record, list[str]]] = []
    for record in read_delimited(path, encoding=settings.encoding):
        cells: list[str] = []
        with suppress(InputError):  # of a damaged row, which its sentence has
            cells = _csv_cells(record)
        if cells and cells[0] not in ("", sentence):
            sentence, index = cells[0], index + 1
        numbered.append((index, record, cells))
    for _, rows in groupby(numbered, key=lambda row: row[0]):
        yield partial(make, list(rows))


def _csv_cells(record: Record) -> list[str]:
    """Returns the id of the sentence, the word and the tag of a row."""
    values = {name.lower(): value for name, value in record.values.items()}
    return [next(values[name] for name in names if name in values) for names in _CSV]


def _wikiner(path: Path, settings: Settings) -> Iterator[Make]:
    def make(line_number: int, line: str) -> FileSentence:
        parts = [cell.rsplit("|", 2) for cell in split_cells(line, None)]
        for cell in parts:
            if len(cell) != 3:
                found = f"{len(cell)} parts in {'|'.join(cell)!r}"
                raise InputError.at(path, line_number, found=found, expected="word|pos|tag")
        return _sentence(path, [word for word, *_ in parts], [line_number], [tag for *_, tag in parts])

    for line_number, line in read_lines(path, encoding=settings.encoding):
        if line.strip(BLANKS):
            yield partial(make, line_number, line)


def _atis(path: Path, settings: Settings) -> Iterator[Make]:
    def make(line_number: int, text: str, tags: list[str] | None) -> FileSentence:
        words = text.split()
        if tags is not None and len(tags) != len(words):
            expected = f"{len(words)}, as in {path}"
            raise InputError.at(beside, line_number, found=f"{len(tags)} tags", expected=expected)
        return _sentence(path, words, [line_number], tags)

    beside = path.with_name(path.name.removesuffix(_IN) + _OUT)
    texts = [line for _, line in read_lines(path, encoding=settings.encoding)]
    tagged = beside.exists()
    tags = [line.split() for _, line in read_lines(beside, encoding=settings.encoding)] if tagged else []
    if tagged and len(texts) != len(tags):
        raise InputError.at(beside, found=f"{len(tags)} lines", expected=f"{len(texts)}, as in {path}")
    for line_number, text in enumerate(texts, start=1):
        if text.strip():
            yield partial(make, line_number, text, tags[line_number - 1] if tagged else None)


def _records(path: Path, settings: Settings, format: RecordFormat) -> Iterator[Make]:
    records = read_records(path, format, encoding=settings.encoding)
    classes = class_names(path) if format == "parquet" else {}
    return (partial(_record, record, classes, settings) for record in records)


def _record(record: Record, classes: dict[str, list[str]], settings: Settings) -> FileSentence | None:
    values = record.values
    if values.get(ANSWER, _ACCEPTED) != _ACCEPTED and not settings.every_record:
        return None
    with named_by(ids := ids_of(values)):
        sentence = _sentence_of_record(record, classes, settings)
    sentence.ids = ids
    return sentence


def _sentence_of_record(record: Record, classes: dict[str, list[str]], settings: Settings) -> FileSentence:
    values = {key.lower(): value for key, value in record.values.items()}
    record = Record(record.path, record.line, values)
    name = next((name for name in _TOKENS if name in values), "")
    text = next((name for name in _TEXT if isinstance(values.get(name), str)), "")
    if name and _is_list_of(values[name], str):
        return _with_tokens(record, name, classes, settings)
    if text:
        return _with_text(record, text, name, settings)
    names = ", ".join(f'"{each}"' for each in values) or "none"
    raise record.error(f"the fields {names}", '"tokens" or "text"')


def _with_tokens(
    record: Record, name: str, classes: dict[str, list[str]], settings: Settings
) -> FileSentence:
    values = record.values
    words, tags = values[name], None
    if not words:
        raise NoWordsError(str(_wrong(record, name, "tokens")))
    tag = next((each for each in _TAGS if isinstance(values.get(each), list)), None)
    if tag is not None and not settings.every_record:
        tags, names = values[tag], settings.tag_names or classes.get(tag)
        if len(tags) != len(words):
            raise _wrong(record, tag, f"{len(words)} tags, one a token")
        if not _is_list_of(tags, str):
            if names is None:
                expected = "names of tags, or the key `tag_names` with the name of each number"
                raise _wrong(record, tag, expected)
            if not all(type(each) is int and 0 <= each < len(names) for each in tags):
                raise _wrong(record, tag, f"numbers from 0 to {len(names) - 1}: {len(names)} have names")
            tags = [names[each] for each in tags]
    sentence = _sentence(record.path, words, [record.line], tags)
    if tag is None and not settings.every_record:
        sentence.spans = _token_spans(record, len(words))
    return sentence


def _token_spans(record: Record, length: int) -> list[Span] | None:
    """Returns the spans of a record with tokens and without a list of tags; `None` if it has no labels."""
    values = record.values
    name = next((each for each in (*_TOKEN_SPANS, *_TAGS) if values.get(each) is not None), None)
    if name is None or values[name] == []:
        return None if name is None else []
    if name not in _TOKEN_SPANS:
        raise _wrong(record, name, f"a list of {length} tags, one a token")
    expected = f'[{{"type": "LABEL", "start": 0, "end": 1}}], tokens from 0 to {length}, and no "text"'
    if not _is_list_of(values[name], dict) or any(isinstance(values.get(each), str) for each in _TEXT):
        raise _wrong(record, name, expected)
    spans = [Span(each.get("start"), each.get("end"), each.get("type")) for each in values[name]]
    for start, end, label in spans:
        is_span = type(start) is type(end) is int and 0 <= start < end <= length
        if not is_span or not isinstance(label, str) or not label:
            raise _wrong(record, name, expected)
    return spans


def _with_text(record: Record, text: str, tokens: str, settings: Settings) -> FileSentence:
    values = record.values
    if tokens and _is_list_of(values[tokens], dict):
        try:
            offsets = [(each["start"], each["end"]) for each in values[tokens]]
            content = Words(values[text], [values[text][start:end] for start, end in offsets], offsets)
        except (KeyError, TypeError) as error:
            raise _wrong(record, tokens, 'tokens with "start" and "end"') from error
    else:
        content = settings.split(values[text])
    if not content.words:
        raise NoWordsError(str(_wrong(record, text, "a text with words")))
    span_fields = [each for each in (*_SPANS, *_TAGS) if values.get(each) is not None]
    if settings.every_record or not span_fields:
        # Prodigy and Label Studio leave out empty lists.
        none: list[CharacterSpan] | None = None if values.keys().isdisjoint((ANSWER, _ANNOTATION)) else []
        return FileSentence(content.words, [record.line], characters=none, text=content)
    name = next((each for each in span_fields if _is_list_of(values[each], (list, dict))), span_fields[0])
    try:
        characters = _character_spans(values[name], content.text)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        expected = (
            '[start, end, "LABEL"], {"start": 0, "end": 4, "label": ...}, or {"LABEL": {"TEXT": [[0, 3]]}}'
        )
        raise _wrong(record, name, expected) from error
    for start, end, _ in characters:
        if not 0 <= start < end <= len(content.text) or not content.text[start:end].strip():
            raise _wrong(record, name, f"characters of the text, from 0 to {len(content.text)}")
    return FileSentence(content.words, [record.line], characters=characters, text=content)


def _wrong(record: Record, name: str, expected: str) -> InputError:
    return record.error(f'"{name}": {shorten_json(record.values[name])}', expected)


def _character_spans(values: Any, text: str) -> list[CharacterSpan]:
    if isinstance(values, list):
        return [_character_span(each) for each in values]
    offsets = [
        (label, mention, *pair)
        for label, mentions in values.items()
        for mention, offsets in mentions.items()
        for pair in offsets
    ]
    if any(text[start : last + 1] != mention for _, mention, start, last in offsets):
        raise ValueError
    return [_character_span((start, last + 1, label)) for label, _, start, last in offsets]


def _character_span(value: Any) -> CharacterSpan:
    if isinstance(value, dict):
        names = ("start", "end") if "start" in value else ("start_offset", "end_offset")
        (label,) = [value["label"]] if "label" in value else value["labels"]
        value = [*(value[name] for name in names), label]
    start, end, label = value
    if type(start) is not int or type(end) is not int or not isinstance(label, str) or not label:
        raise ValueError
    return CharacterSpan(start, end, label)


def _is_list_of(value: Any, kind: type | tuple[type, ...]) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


def _spacy(path: Path, settings: Settings) -> Iterator[Make]:
    """Reads each sentence of each document, or the whole document if its sentences are not marked."""
    import spacy
    from spacy.tokens import DocBin

    def make(doc_number: int, part: "SpacySpan") -> FileSentence:
        tokens = [token for token in part if not token.is_space]
        if not tokens:
            raise NoWordsError.at(path, doc_number, found="no words", expected="at least one")
        index_of_token = {token.i: index for index, token in enumerate(tokens)}
        starts = [token.idx - part.start_char for token in tokens]
        words = [token.text for token in tokens]
        offsets = [(start, start + len(word)) for start, word in zip(starts, words, strict=True)]
        spans = None
        if tagged:
            inside = [
                [index_of_token[token.i] for token in each if token.i in index_of_token] for each in part.ents
            ]
            entities = zip(inside, part.ents, strict=True)
            spans = [Span(within[0], within[-1] + 1, each.label_) for within, each in entities if within]
        return FileSentence(words, [doc_number], spans=spans, text=Words(part.text, words, offsets))

    try:
        docs = list(DocBin().from_disk(path).get_docs(spacy.blank("xx").vocab))
    except Exception as error:  # zlib, msgpack and spaCy raise their own classes
        found = f"{type(error).__name__}: {error}"
        raise InputError.at(path, found=found, expected="a DocBin of spaCy") from error
    tagged = any(doc.has_annotation("ENT_IOB") for doc in docs)
    for doc_number, doc in enumerate(docs, start=1):
        for part in doc.sents if doc.has_annotation("SENT_START") else [doc[:]]:
            yield partial(make, doc_number, part)


_READERS: dict[str, Callable[[Path, Settings], Iterator[Make]]] = {
    "columns": _columns,
    "conll2012": _conll2012,
    "conllu": _conllu,
    "json": partial(_records, format="json"),
    "parquet": partial(_records, format="parquet"),
    "csv": _csv,
    "wikiner": _wikiner,
    "atis": _atis,
    "spacy": _spacy,
}
