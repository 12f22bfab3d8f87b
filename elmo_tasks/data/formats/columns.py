"""
Files in columns: one token a line, an empty line between sentences.

CoNLL-2012 (https://conll.cemantix.org/2012/data.html), OntoNotes, and corpora that follow them have documents
between `#begin document (ID); part 000` and `#end document`. GUM writes `# begin document ID`, OntoGUM no id,
and others no part.
"""

import logging
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from allennlp.common.checks import ConfigurationError

from elmo_tasks.data.formats import Doubt, Fit, Format
from elmo_tasks.data.formats.profile import read_table
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import (
    InputError,
    check_found,
    input_files,
    main_files,
    read_lines,
    value_or_error,
)
from elmo_tasks.data.tag_schemes import Span
from elmo_tasks.data.tokenization import Words

logger = logging.getLogger(__name__)

BLANKS = " \t"
SEPARATORS = re.compile(r"(\d+[ \t]+)?-DOCSTART-")
LONG = 250
"""Tokens of a sentence, above which the empty lines between sentences are likely missing."""
_SUSPICIOUS = 50
"""Tokens of a file, from which one sentence, or as many as tokens, are odd."""
_BLANKS = re.compile(f"[{BLANKS}]+")
_COMMENT = re.compile(r"#+(?:[ \t]|$)|###|#\w+\d+$")
_KEY = re.compile(r"#+ +(?:\d+$|(?:sent_)?id\b|text\b|newdoc\b|newpar\b|global\b|\S+ *= )")
"""Comments that could be rows by their number of columns, such as `# id 12 domain`."""
_VALUE = re.compile(r"# \S+ = ")

Lines = list[tuple[int, str]]


class ColumnLayout:
    """
    The names of a file's columns, and what separates them.

    # Parameters

    names : names of the columns in order.
    delimiter : text between two columns; `None` for any run of blanks and tabs.
    needed : names that must occur exactly once, or it is a `ConfigurationError`.
    comments : the start of lines that are not rows. With `auto`, these are lines that begin with `#` and a
        blank, or with `###`, before the first word of a sentence, and do not look like a row; and
        `# key = value` anywhere, with another number of columns. `None`: all lines are rows.
    """

    def __init__(
        self,
        names: Sequence[str],
        delimiter: str | None,
        *,
        needed: Sequence[str],
        comments: str | None = "auto",
    ) -> None:
        if any(list(names).count(name) != 1 for name in needed):
            raise ConfigurationError(f"columns: {names!r} must name each of {', '.join(needed)} once")
        self.names = list(names)
        self.delimiter = delimiter
        self.comments = comments
        self._mark = "#" if comments == "auto" else comments

    def split(self, line: str) -> list[str]:
        """Returns the cells of a line, between tabs if these alone make the right number of cells."""
        cells = split_cells(line, self.delimiter)
        if self.delimiter is None and len(cells) > len(self.names) == line.count("\t") + 1 > 1:
            return line.split("\t")
        return cells

    def fits(self, cells: list[str]) -> bool:
        return len(cells) == len(self.names)

    def sentences(
        self,
        path: Path,
        lines: Iterable[tuple[int, str]] | None = None,
        *,
        separators: re.Pattern[str] | None = None,
    ) -> Iterator[Lines]:
        """Yields the lines of each sentence, see `line_groups`, without comments; warns of a long one."""
        sizes: Counter[int] = Counter()
        lines = read_lines(path) if lines is None else lines
        for group in line_groups(lines, separators=separators):
            rows = group
            if self._mark and any(line.startswith(self._mark) for _, line in group):
                rows = []
                for line_number, line in group:
                    if not (line.startswith(self._mark) and self._is_comment(line, not rows)):
                        rows.append((line_number, line))
            if len(rows) > LONG and max(sizes, default=0) <= LONG:
                message = "%s, line %d: a sentence has %d tokens; is there an empty line after each sentence?"
                logger.warning(message, path, rows[0][0], len(rows))
            if rows:
                sizes[len(rows)] += 1
                yield rows
        ((size, number), *others) = sizes.items() if sizes else [(0, 0)]
        if (
            not others
            and (size if number == 1 else number if size == 1 else 0) > _SUSPICIOUS
            and size <= LONG
        ):
            message = "%s: the %s; is there an empty line after each sentence, and nowhere else?"
            logger.warning(
                message, path, "file is one sentence" if number == 1 else "sentences have one token each"
            )

    def row(self, path: Path, line_number: int, line: str) -> list[str]:
        """Returns the cells of a line without superfluous empty ones; `InputError` for another number."""
        cells, size = self.split(line), len(self.names)
        if len(cells) == size:
            return cells
        if len(cells) < size or any(cells[size:]):
            problem = f"{line[:80]!r} has {len(cells)} columns, not {size}: {', '.join(self.names)}"
            remedy = "the reader's key `comments` can leave the line out" if line.startswith("#") else ""
            raise InputError(problem, where=path, line=line_number, remedy=remedy)
        return cells[:size]

    def _is_comment(self, line: str, is_first: bool) -> bool:
        if self.comments != "auto" or not (_COMMENT if is_first else _VALUE).match(line):
            return self.comments != "auto"
        cells = line.split("\t") if "\t" in line else self.split(line)
        is_text = " " in cells[0] or "" in cells or _KEY.match(line) is not None
        return not self.fits(cells) or (is_first and is_text)


def split_cells(line: str, delimiter: str | None) -> list[str]:
    """Splits a line at a delimiter; with `None` at runs of blanks and tabs, but not at other white space."""
    return line.split(delimiter) if delimiter else _BLANKS.split(line.strip(BLANKS))


def line_groups(
    lines: Iterable[tuple[int, str]], *, separators: re.Pattern[str] | None = None
) -> Iterator[Lines]:
    """Groups numbered lines into sentences, between blank lines or lines that begin with `separators`."""
    group: Lines = []
    for line_number, line in lines:
        if line.strip(BLANKS) and not (separators and separators.match(line)):
            group.append((line_number, line))
        elif group:
            yield group
            group = []
    if group:
        yield group


def first_sentence(lines: Iterable[tuple[int, str]]) -> tuple[Lines, list[str]]:
    """Takes the lines up to the end of the first sentence; returns them, and its rows without comments."""
    taken: Lines = []
    rows: list[str] = []
    for line_number, line in lines:
        taken.append((line_number, line))
        if not line.strip(BLANKS) and rows:
            break
        if line.strip(BLANKS) and not line.startswith("#") and not SEPARATORS.match(line):
            rows.append(line)
    return taken, rows


# CoNLL-2012

DOCUMENT = re.compile("# ?(begin|end) document")
END = "#end document"
_BEGIN = re.compile(r"# ?begin document *(.*?) *(?:;(?: *part *(\d+))?)? *")
_SKELETONS = ("_skel", "_skel.gz")
_AUTOMATIC, _GOLD = "_auto_conll", "_gold_conll"
_ESCAPED = {"/.": ".", "/?": "?"}
_COLUMNS_2012, _WORD_2012, _ENTITY_2012 = 12, 3, 10


def gold_files(
    path: str | list[str], companions: Mapping[str, Sequence[str]] = MappingProxyType({})
) -> list[Path]:
    """
    Returns the files of `path`, see `input_files` and `main_files`, without skeletons, and without automatic
    annotation of documents whose gold annotation is among them. The log says how many files are left out.
    """
    files = input_files(path)
    with_words = {file: None for file in files if not file.name.endswith(_SKELETONS)}
    check_found(with_words, "files with words, only skeletons (*_skel)", str(path))
    names_of_gold = {file: file.with_name(file.name.replace(_AUTOMATIC, _GOLD)) for file in with_words}
    gold = [file for file, other in names_of_gold.items() if file == other or other not in with_words]
    if left_out := len(files) - len(gold):
        kinds = "skeletons (*_skel), or automatic annotation (*_auto_conll) of documents with gold annotation"
        logger.info("%s: %d files left out: %s", path, left_out, kinds)
    return main_files(gold, companions)


def unescape(word: str) -> str:
    """Returns a word of OntoNotes as other texts write it: some of its sentences end in `/.` or `/?`."""
    return _ESCAPED.get(word, word)


def begin_document_id(line: str) -> str | None:
    """
    Returns the id of the document that a line begins, with the number of its part, such as `nw/wsj_0001_0`;
    empty if the line has none, and `None` for any other line.
    """
    match = _BEGIN.fullmatch(line)
    if match is None:
        return None
    name, part = match.groups()
    if name.startswith("(") and name.endswith(")"):
        name = name[1:-1]
    return name if part is None else f"{name}_{int(part)}"


def ends_document(line: str) -> bool:
    return line.startswith((END, "# end document"))


# Sentences with entities

WORD, TAG = "word", "tag"
CONLL_2003 = (WORD, "pos", "chunk", TAG)
_COMMENTS = ("# ", "#\t", "## ", "###")
_CHUNKS = {"B-NP", "I-NP", "B-VP", "I-VP", "B-NC", "I-NC", "B-VC", "I-VC"}
_TAG = re.compile(r"[BIESULM]-\S+|[bi]-\S+|\S+_[BI]")
_NOTHING = {"O", "o", "0", "", "_"}
"""How files write that a word is in no entity."""
_OTHER_O = ("o", "0", "-")
TAG_OR_O = re.compile(r"O|[BIESULM]-\S+")
_MANY = 5
"""A column with fewer than a fifth of the tags of another, as of nested entities, is no choice."""
_SAME_WIDTH = 0.6
"""The share of the lines that have as many cells, in files with a token a line."""
_NAME_OF_WORDS = re.compile("(token|word|form|text)s?", re.IGNORECASE)
_NAME_OF_TAGS = re.compile(
    r"((ner?|iob2?|bio|entity)[-_ ]?)?(tag|label)s?|ner|iob2?|bio|ne-\S+", re.IGNORECASE
)
"""The names of columns in a header, such as `TOKEN` and `NE-COARSE-LIT` of HIPE."""


@dataclass(slots=True)
class EntitySentence:
    """
    A sentence of a file: its words with their lines, and its entities as tags, as spans of words, or as spans
    of characters; without any of them it is not annotated.
    """

    words: list[str]
    lines: Sequence[int]
    tags: list[str] | None = None
    spans: list[Span] | None = None
    characters: list[Span] | None = None
    text: Words | None = None
    """The words in their text, if the file has one."""
    ids: Mapping[str, Any] | None = None
    moved: Sequence[str] = ()
    """The spans that are where their text is, not at their offsets."""


@dataclass
class EntityOptions:
    """What the keys of a reader say about files with entities; `split` splits a text into words."""

    layout: ColumnLayout
    split: Callable[[str], Words]
    tag_names: list[str] | None
    encoding: str
    every_record: bool = False


def sentence_of(words: list[str], lines: Sequence[int], tags: list[str] | None) -> EntitySentence:
    """Returns a sentence; cells of tags that are all empty or `_` are none. `InputError`: an empty word."""
    if not all(words):
        raise InputError("a word is empty", line=lines[words.index("")])
    return EntitySentence(words, lines, None if tags and all(tag in ("_", "") for tag in tags) else tags)


def plain_tag(tag: str) -> str:
    """Returns `O` for `o` and `0`, and `B-PER` for `b-PER`."""
    return "O" if tag in _OTHER_O else tag[0].upper() + tag[1:] if tag[:2] in ("b-", "i-") else tag


def read_columns(path: Path, options: EntityOptions) -> Iterator[EntitySentence | InputError]:
    """
    Yields the sentences of a file. They have no tags if the first sentence has a word a line, or all columns
    except the last. A header that names both columns is left out.
    """
    layout = options.layout
    begin, rows = first_sentence(lines := read_lines(path, encoding=options.encoding))
    cells = layout.split(rows[0]) if rows else []
    if layout.fits(cells) and _has_names([cells[layout.names.index(name)] for name in (WORD, TAG)]):
        header = rows.pop(0)
        begin = [each for each in begin if each[1] is not header]
    layout = _without_tags(layout, rows) or layout
    tags = layout.names.index(TAG) if TAG in layout.names else None
    if tags is not None and any(layout.split(row)[tags : tags + 1] in (["o"], ["0"], ["-"]) for row in rows):
        logger.warning("%s: the tags o, 0 and - are read as O", path)
    for group in layout.sentences(path, chain(begin, lines), separators=SEPARATORS):
        try:
            yield _from_rows(path, layout, group)
        except InputError as error:
            error.where = str(path)
            yield error


def _from_rows(path: Path, layout: ColumnLayout, group: Lines) -> EntitySentence:
    rows = [layout.row(path, line_number, line) for line_number, line in group]
    words, tags = (
        [cells[layout.names.index(name)] for cells in rows] if name in layout.names else None
        for name in (WORD, TAG)
    )
    tags = None if tags is None else list(map(plain_tag, tags))
    return sentence_of(words or [], [line_number for line_number, _ in group], tags)


def _without_tags(layout: ColumnLayout, lines: list[str]) -> ColumnLayout | None:
    """Returns the layout of a sentence whose lines all hold a word alone, or all columns except the last."""
    rows = [layout.split(line if layout.delimiter else line.rstrip(BLANKS)) for line in lines]
    width = len(rows[0]) if rows else 0
    if {*map(len, rows)} != {width} or width >= len(layout.names):
        return None
    if width == 1 and not any(_BLANKS.search(word) for (word,) in rows):
        return ColumnLayout([WORD], None, needed=[WORD], comments=layout.comments)
    columns = [set(column) for column in zip(*rows, strict=True)]
    word = layout.names.index(WORD)
    all_but_tag = width == len(layout.names) - 1 and layout.names[-1] == TAG
    if all_but_tag and width - 1 not in _tag_columns(columns) and not _are_numbers(columns[word]):
        return ColumnLayout(layout.names[:-1], layout.delimiter, needed=[WORD], comments=layout.comments)
    return None


def _read_conll2012(path: Path, options: EntityOptions) -> Iterator[EntitySentence | InputError]:
    """Yields the sentences of CoNLL-2012, with the brackets of their entities as tags."""

    def sentence(lines: Lines) -> EntitySentence:
        rows = []
        for line_number, line in lines:
            rows.append(split_cells(line, None))
            if len(rows[-1]) < _COLUMNS_2012:
                problem = f"{line[:80]!r} has {len(rows[-1])} columns; CoNLL-2012 has {_COLUMNS_2012} or more"
                raise InputError(problem, line=line_number)
        words = [unescape(cells[_WORD_2012]) for cells in rows]
        tags = [cells[_ENTITY_2012] for cells in rows]
        return sentence_of(words, [line_number for line_number, _ in lines], tags)

    for lines in line_groups(read_lines(path, encoding=options.encoding), separators=DOCUMENT):
        yield value_or_error(path, None, sentence, lines)


# Detection


def found_columns(
    lines: Sequence[str], label: str | None = None, texts: Sequence[str] = ()
) -> Iterator[tuple[dict[str, Any], str, Counter[str], list[str]]]:
    """
    Yields the keys of a reader for each column that may be the tags, its name in the header, or as `column1`
    and so on, how often each tag occurs, and all names: that with the most tags first, and of equal ones the
    last. The words are in the first other column that is not of numbers. `label` and `texts` choose by name.
    """
    lines = [line for line in lines if line and not line.startswith(_COMMENTS) and not SEPARATORS.match(line)]
    if all(line[0] in BLANKS for line in lines):  # indented
        lines = [line.lstrip(BLANKS) for line in lines]
    delimiter = "\t" if any("\t" in line for line in lines) else None
    if delimiter is None and not any(" " in line for line in lines):
        delimiter = next((mark for mark in "|,;" if lines and all(mark in line for line in lines)), None)
    rows = [split_cells(line, delimiter) for line in lines]
    width = Counter(map(len, rows)).most_common(1)[0][0] if rows else 0
    regular = [row for row in rows if len(row) == width]
    rows = regular if len(regular) > _SAME_WIDTH * len(rows) else []
    header = rows.pop(0) if rows and _has_names(rows[0]) else None
    columns = [{row[index] for row in rows} for index in range(width)]
    tags = _tag_columns(columns)
    words = [index for index in range(width) if index not in tags and not _are_numbers(columns[index])]
    if header:
        tags = [index for index in tags if _NAME_OF_TAGS.fullmatch(header[index])]
        words = [index for index in words if _NAME_OF_WORDS.fullmatch(header[index])]
    numbered = [f"column{index + 1}" for index in range(width)]
    for names in (numbered, header or []):
        tags = [index for index, name in enumerate(names) if name == label] or tags
        words = [index for index, name in enumerate(names) if name in texts] or words
    marked = {tag: Counter(row[tag] for row in rows if row[tag] not in {*_NOTHING, "-"}) for tag in tags}
    for tag in sorted(tags, key=lambda tag: (-marked[tag].total(), -tag)) if words else ():
        if (width, words[0], tag) == (4, 0, 3):
            names = list(CONLL_2003)
        else:
            names = [{words[0]: WORD, tag: TAG}.get(index, name) for index, name in enumerate(numbered)]
        keys = {"columns": names} | ({"delimiter": delimiter} if delimiter else {})
        yield keys, (header or numbered)[tag], marked[tag], numbered + (header or [])


def find_columns(sample: Sample) -> tuple[list[dict[str, Any]], Doubt | None, list[str]]:
    """
    Returns the keys of a reader for each of the `found_columns`, the doubt if two have many tags, and the
    names of all columns.
    """
    ways = list(found_columns(sample.lines + sample.spread, sample.label, sample.texts))
    most = max((tags.total() for _, _, tags, _ in ways), default=0)
    choices = {
        name: f"{name} ({', '.join(f'{tag} {count}' for tag, count in tags.most_common(3))})"
        for _, name, tags, _ in ways
        if _MANY * tags.total() > most > 0
    }
    is_asked = sample.label is None and len(choices) > 1
    doubt = Doubt("label", list(choices.values()), list(choices)) if is_asked else None
    return [keys for keys, *_ in ways], doubt, ways[0][-1] if ways else []


def problem_of_columns(sample: Sample) -> str | None:
    """Returns what lines in columns lack that are no tokens with tags; `None` for other lines."""
    table = read_table(sample)
    if table is not None:
        tagged = any(all(map(TAG_OR_O.fullmatch, column.strings)) for column in table.of_kind("label"))
        return (
            "there are words with tags, but nothing says where a sentence ends: add empty lines"
            if tagged
            else None
        )
    sizes = Counter(len(split_cells(line, None)) for line in sample.lines)
    (width, number), *_ = sizes.most_common(1) or [(0, 0)]
    is_text = 2 * len(sample.lines) < 1.5 * len(sample.all_lines)  # an empty line after each line
    if not sample.has_blank_lines or is_text or width < 2 or number < 0.8 * len(sample.lines):
        return None
    return f"there are {width} columns, none of which has only O and tags such as B-PER"


def _has_names(cells: list[str]) -> bool:
    return any(map(_NAME_OF_WORDS.fullmatch, cells)) and any(map(_NAME_OF_TAGS.fullmatch, cells))


def _tag_columns(columns: Sequence[set[str]]) -> list[int]:
    """
    Returns the columns of nothing but `O` and prefixed tags, of chunks only where nothing else is tagged.
    If none has a prefix, they are the columns with `O`, except the column of most values: "O" is a word, too.
    """
    filled = [index for index, values in enumerate(columns) if values - {"", "_"}]
    tags = [index for index in filled if _are_prefixed(columns[index])]
    possible = [index for index in filled if not columns[index] & _CHUNKS]
    if any(columns[index] - _NOTHING for index in tags):
        return [index for index in tags if index in possible] or tags
    texts = [index for index, values in enumerate(columns) if not _are_numbers(values)]
    words = max(texts, key=lambda index: len(columns[index]), default=None)
    outside = [index for index in possible if columns[index] & {"O", "o", "0"} and index != words]
    return [index for index in outside if not _are_numbers(columns[index])]


def _are_prefixed(values: set[str]) -> bool:
    """Tells whether there is nothing but prefixed tags and `O`, or `-` if there are such tags."""
    tags = values - _NOTHING - {"-"}
    return all(map(_TAG.fullmatch, tags)) and (bool(tags) or "-" not in values)


def _are_numbers(values: set[str]) -> bool:
    return all(re.fullmatch(r"[\d._-]*", value) for value in values)


def _fit_columns(sample: Sample) -> Fit:
    """Returns how well tokens in columns fit; words without tags have empty lines between their sentences."""
    if sample.is_json:
        return Fit.NO
    keys, _, tags, _ = next(found_columns(sample.lines + sample.spread), ({}, "", None, []))
    if tags is None:
        rows = first_sentence(enumerate(sample.all_lines))[1]
        sizes = {len(split_cells(row, None)) for row in rows}
        return Fit.POSSIBLE if sample.has_blank_lines and sizes in ({1}, {len(CONLL_2003) - 1}) else Fit.NO
    if keys.get("delimiter") not in (None, "\t") and not sample.has_blank_lines:
        return Fit.NO
    if not any(map(_TAG.fullmatch, tags)):
        return Fit.LIKELY if sample.has_blank_lines else Fit.NO
    table = None if sample.has_blank_lines else read_table(sample)
    is_table = table is not None and table.has_header
    return Fit.LIKELY if tags.keys() & _CHUNKS or is_table else Fit.CERTAIN


def _fit_conll2012(sample: Sample) -> Fit:
    cells = split_cells(sample.first_row, None)
    is_document = any(map(DOCUMENT.match, sample.lines))
    return Fit.LIKELY if is_document and len(cells) >= _COLUMNS_2012 and cells[2].isdecimal() else Fit.NO


FORM, UPOS, XPOS, MISC = 1, 3, 4, 9
"""The columns of the word, its tags, and all else, as `key=value` between `|`."""
_COLUMNS = 10
_ENTITY_KEY = re.compile(r"(?:^|\|)(\w+)=[BIESLUM]-[^\W\d_][^|]*")
"""A key whose value looks like a tag."""


class ConlluSentence(NamedTuple):
    """The cells of each word with their line, and the comments before them."""

    rows: list[tuple[int, list[str]]]
    comments: list[str]


def is_conllu(lines: Iterable[str]) -> bool:
    """Returns whether the first line that is not a comment has the columns of CoNLL-U."""
    first = next((line for line in lines if line.strip() and not line.startswith("#")), "")
    return first.count("\t") == _COLUMNS - 1 and first[0].isdecimal()


def read_conllu(
    path: Path, *, encoding: str | None = None, columns: int | None = _COLUMNS, empty_nodes: bool = False
) -> Iterator[ConlluSentence]:
    """
    Yields the syntactic words of each sentence, without multi-word tokens (`1-2`), and, if they are not
    asked for, without empty nodes (`1.1`). Another number of columns, or a file without sentences, is an
    `InputError`.
    """
    has_sentences = False
    for group in line_groups(read_lines(path, encoding=encoding)):
        rows, comments = [], []
        for line_number, line in group:
            if line.startswith("#"):
                comments.append(line)
                continue
            cells = line.split("\t")
            if columns is not None and len(cells) != columns:
                problem = f"the line has {len(cells)} columns between tabs; CoNLL-U has {columns}"
                raise InputError(problem, where=path, line=line_number)
            if cells[0].isdecimal() or (empty_nodes and "." in cells[0]):
                rows.append((line_number, cells))
        if rows:
            has_sentences = True
            yield ConlluSentence(rows, comments)
    check_found(has_sentences, "sentences", path)


def _read_conllu_entities(path: Path, options: EntityOptions) -> Iterator[EntitySentence | InputError]:
    """
    Yields the sentences of a file with the entities in its last column, under the first key whose value looks
    like a tag, such as `name=` (NorNE) or `NER=` (hr500k, ParlaMint). Without one they have no tags.
    """
    sentences = [rows for rows, _ in read_conllu(path, encoding=options.encoding)]
    cells_of_file = (cells[MISC] for rows in sentences for _, cells in rows)
    key = next((match[1] for cells in cells_of_file if (match := _ENTITY_KEY.search(cells))), None)
    for rows in sentences:
        words, lines = [cells[FORM] for _, cells in rows], [line for line, _ in rows]
        tags = [misc_values(cells).get(key, "O") for _, cells in rows] if key else None
        yield value_or_error(path, None, sentence_of, words, lines, tags)


def misc_values(cells: Sequence[str]) -> dict[str, str]:
    pairs = (each.partition("=") for each in cells[MISC].split("|"))
    return {key: value for key, _, value in pairs}


def _fit_conllu(sample: Sample) -> Fit:
    """Returns how well CoNLL-U fits, which is certain if it names entities."""
    if not is_conllu(sample.lines):
        return Fit.NO
    lines = sample.lines + sample.spread
    has_entities = any(_ENTITY_KEY.search(line.rpartition("\t")[2]) for line in lines)
    return Fit.CERTAIN if has_entities else Fit.LIKELY


FORMATS = (
    Format("columns", _fit_columns, read_columns),
    Format("conll2012", _fit_conll2012, _read_conll2012),
    Format("conllu", _fit_conllu, _read_conllu_entities),
)
"""The formats of sentences with entities."""
