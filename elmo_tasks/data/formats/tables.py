"""
How data of an unknown kind are read as texts, or pairs of texts, with a class each.

A table with one column of labels and one of texts is classification; with two columns of texts, pairs; with
labels of entailment, SNLI. Names break ties between columns. Where they do not, the finding has a `Doubt`.
"""

import re
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import combinations, pairwise
from pathlib import Path
from typing import Any

from elmo_tasks.data.formats import Doubt, Finding, Fit
from elmo_tasks.data.formats.delimited import DelimitedLayout
from elmo_tasks.data.formats.profile import (
    CONTRASTS,
    MAX_CLASSES,
    NAMES_OF_LABELS,
    NAMES_OF_PAIRS,
    NAMES_OF_TEXTS,
    Column,
    Table,
    as_label,
    is_binary,
    normal,
    num_words,
    read_table,
)
from elmo_tasks.data.formats.records import ANSWER, class_names, is_rejected, read_records
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.formats.texts import FASTTEXT, is_fasttext, label_file, without_labels
from elmo_tasks.data.input_files import InputError, nonblank_lines, shorten
from elmo_tasks.data.tokenization import tokenizer_of_texts

GOLD, UNDECIDED = "gold_label", "-"
"""The column of labels of SNLI and MultiNLI, and its value where annotators did not agree."""
ENTAILMENT_LABELS = ("entailment", "neutral", "contradiction")
OTHER_NAMES = {label[0]: label for label in ENTAILMENT_LABELS} | {
    label.upper(): label for label in ENTAILMENT_LABELS
}
UNDECIDED_PAIRS = (UNDECIDED, "-1")
COLUMN_NAMES = {
    "premise": ("sentence1", "premise", "context", "sentence_a"),
    "hypothesis": ("sentence2", "hypothesis", "hypo", "sentence_b"),
    "label": ("gold_label", "label", "entailment_judgment", "entailment_label"),
}
"""The names that published sets of entailment give to a column, in small letters."""
_PLAIN_NAMES = ("label", "gold label", "labels", "class", "class index", "cats")
"""The names of labels that need no choice between columns."""
_WHOLE = {"text", "review", "tweet", "comment", "content", "body", "title", "description", "v2"}
"""The names of a text that is classified alone."""
_IDS = re.compile(
    r"(.* )?(id|ids|idx|index|uid|guid|number|nr|no|page|line|date|time|timestamp|year|month|day)"
)
_SPLITS = {"train", "training", "dev", "valid", "validation", "test", "trial", "part", "shard", "chunk"}
_KINDS_OF_FILES = {
    *("text", "texts", "txt", "ann", "src", "tgt", "source", "target", "input", "output", "gold", "data")
}
"""The parts of a set, in its files' names or in a column, which are not names of classes."""
_PARSE = "_parse"
_MOST_UNLIKE = 3
"""The texts of a pair have similar lengths, a title and its text do not."""
_PLAIN_TEXTS = ("text", "sentence", "review", "tweet", "comment", "content", "body", "v2")
"""The names of a text that need no choice between columns."""
_CHOICES = {"choice", "ending", "option", "candidate", "choice1", "ending1", "option1", "sol1"}
"""Parts of the names of several answers to choose from, which are no pair."""
_VERSIONS = {
    *("en", "de", "fr", "es", "pt", "it", "zh", "ja", "ar", "html", "raw", "clean", "cleaned", "original"),
    *("tokenized", "tokenised", "normalized", "normalised", "translated", "translation", "lemmatized"),
    *("stemmed", "annot", "annotated", "processed", "preprocessed", "lower", "plain", "str"),
}
"""Parts of the names of versions of a text."""
_LONGER = 2
"""A text has twice as many words as its title, at least."""
_SHOWN = 5
"""The choices that a doubt shows."""
_UNLABELLED = {"unsup"}
"""Folders without a class, as in IMDB."""
_TABLE_FILES = {".csv", ".tsv", ".json", ".jsonl", ".parquet"}
_VERDICTS = {"yes", "no", "true", "false", "0", "1", "t", "f", "y", "n"}
_SCORE_NAME = re.compile("score|similarity|relatedness")
_FRACTION = re.compile(r"-?\d*\.0*[1-9]\d*")
_LABEL = re.compile(r"[\w.+-]+")
_CODE = re.compile(r"\d+|[A-Z]+|[A-Z]+:\w+")
"""A label at the start of a line that is hardly the first word of a sentence."""


def find_texts(sample: Sample) -> Finding:
    """Returns how a classifier's reader reads data: by paths, fastText's marks, columns, or first words."""
    if any(map(label_file, sample.files)):
        return Finding(Fit.CERTAIN, [{"format": "label_files"}])
    if names := _classes_of_paths(sample):
        has_texts = any(num_words(line) > 1 for line in sample.lines)
        return Finding(Fit.LIKELY if has_texts else Fit.NO, [{"classes": sorted(names)}])
    if is_fasttext(sample.lines):
        lists = ([word for word in line.split() if word.startswith(FASTTEXT)] for line in sample.lines)
        if several := next((labels for labels in lists if len(labels) > 1), None):
            return Finding(Fit.CERTAIN, problem=_several_labels(sample.files[0], " ".join(several)))
        return Finding(Fit.CERTAIN, [{}])
    if table := read_table(sample):
        return _find_in_table(sample, table)
    if labels := _first_words(sample):
        fit = Fit.LIKELY if all(map(_CODE.fullmatch, labels)) else Fit.POSSIBLE
        return Finding(fit, [{"format": "label_text"}])
    return Finding(Fit.NO)


def find_pairs(sample: Sample) -> Finding:
    """
    Returns how a reader of pairs reads data. The labels may be numbers, or others than SNLI's; the labels 0
    and 1 in RTE, WNLI and MRPC do not say what they mean.
    """
    table = read_table(sample)
    if table is None:
        return Finding(Fit.NO)
    if not table.has_header:
        label = next((column for column in table.columns.values() if _are_entailment(column.counts)), None)
        texts = [column.name for column in table.of_kind("text") if column is not label]
        if label is None or len(texts) < 2:
            return Finding(Fit.NO)
        roles = {"premise": texts[0], "hypothesis": texts[1], "label": label.name}
        return _find_roles(sample, table, roles, {"columns": list(table.columns), **roles})
    endings = [
        name.lower().removeprefix(first) for name in table.columns for first in COLUMN_NAMES["premise"]
    ]
    ways = []
    for ending in dict.fromkeys(["", *endings]):  # as in `sentence_A_En`, if there are several languages
        columns = ((name, known_column(name, table.columns, ending)) for name in COLUMN_NAMES)
        roles = {name: column for name, column in columns if column}
        if len(roles) == len(COLUMN_NAMES):
            ways.append(_find_roles(sample, table, roles, dict(roles) if ending else {}))
    candidates = [keys for way in ways for keys in way.candidates]
    fit = max((way.fit for way in ways), default=Fit.NO)
    return Finding(fit, candidates, None if candidates else next((way.problem for way in ways), None))


def _find_roles(sample: Sample, table: Table, roles: Mapping[str, str], keys: dict[str, Any]) -> Finding:
    if any(_FRACTION.fullmatch(label) for label in table.columns[roles["label"]].counts):
        return Finding(Fit.NO)
    classes = {*table.columns[roles["label"]].counts} - {*UNDECIDED_PAIRS}
    of_snli = classes <= {*ENTAILMENT_LABELS, *OTHER_NAMES}
    is_named = of_snli or _are_entailment(classes) or "premise" in table.columns
    fit = Fit.CERTAIN if is_named else Fit.LIKELY
    if classes == {"0", "1", "2"}:
        keys["label_names"] = {str(i): name for i, name in enumerate(ENTAILMENT_LABELS)}
    elif not of_snli and (roles["premise"] == "premise" or _are_entailment(classes)):
        keys["classes"] = sorted(classes)
    elif not of_snli:
        labels = shorten(", ".join(sorted(classes)))
        problem = f"the labels {labels} in the column {roles['label']!r} are not SNLI's"
        remedy = (
            'say what they mean, for RTE {"classes": ["entailment", "not_entailment"], '
            '"label_names": {"0": "entailment", "1": "not_entailment"}}'
        )
        return Finding(fit, problem=InputError(problem, where=sample.files[0], remedy=remedy))
    return Finding(fit, [keys])


def known_column(name: str, columns: Iterable[str], ending: str = "") -> str | None:
    """Returns the column with one of the names of published sets of entailment, whatever its case."""
    names = [each + ending for each in COLUMN_NAMES[name]]
    exact = next((each for each in names if each in columns), None)
    return exact or next((column for each in names for column in columns if column.lower() == each), None)


def _are_entailment(classes: Iterable[str]) -> bool:
    return any("entail" in name for name in classes)


# Tables


def _find_in_table(sample: Sample, table: Table) -> Finding:
    file = sample.files[0]
    chosen = [name for name in (sample.label, *sample.texts) if name is not None]
    if missing := [name for name in chosen if name not in table.columns]:
        columns = ", ".join(table.columns)
        return Finding(
            Fit.LIKELY, problem=InputError(f"no column is {missing[0]!r}, only {columns}", where=file)
        )
    labels, label_doubt = [table.columns[sample.label]] if sample.label else [], None
    if not labels:
        labels, label_doubt = _labels_of(table)
    readings = [(label, *_texts_of(sample, table, label)) for label in labels]
    candidates = [
        ({} if table.has_header else {"columns": list(table.columns)})
        | {f"sentence{i}": column.name for i, column in enumerate(texts, start=1)}
        | {"label": label.name}
        for label, texts, _ in readings
        if texts
    ]
    if not candidates and _is_unlabelled(table, labels):
        texts, text_doubt = _texts_of(sample, table, None)
        names = [column.name for column in texts]
        unlabelled = {"texts": names, "columns": [] if table.has_header else list(table.columns)}
        return Finding(Fit.NO, doubts=list(filter(None, [text_doubt])), unlabelled=unlabelled)
    if not candidates:
        return Finding(Fit.POSSIBLE, problem=_problem(sample, table, labels))
    label, texts, text_doubt = next(reading for reading in readings if reading[1])
    scores = _scores(table)
    if (
        scores
        and _SCORE_NAME.search(normal(scores.name))
        and len(texts) == 2
        and not (sample.label or _is_verdict(label))
    ):
        return Finding(Fit.LIKELY, problem=_are_scores(file, scores))
    is_named = table.has_header and (
        normal(label.name) in NAMES_OF_LABELS or any(normal(text.name) in NAMES_OF_TEXTS for text in texts)
    )
    fit = Fit.CERTAIN if is_named and not label_doubt else Fit.LIKELY
    return Finding(fit, candidates, doubts=list(filter(None, (label_doubt, text_doubt))))


def _labels_of(table: Table) -> tuple[list[Column], Doubt | None]:
    """
    Returns the columns that may be the labels, the likeliest first, and the doubt if their names do not
    choose one: a plain name such as `label`, or the only usual name, or the only column of labels.
    """
    if ANSWER in table.columns and is_binary(table.rows):
        return [table.columns[ANSWER]], None
    possible = [column for column in table.columns.values() if _may_be_labels(table, column)]
    if not table.of_kind("text"):  # the longest labels are short texts
        longest = max(possible, key=lambda column: column.num_words, default=None)
        possible = [column for column in possible if column is not longest or not column.has_words]
    if not table.has_header:
        named = []
    else:
        names = [name for name in NAMES_OF_LABELS if name != "target"]
        exact = [column for name in names for column in possible if normal(column.name) == name]
        if plain := next(filter(_has_plain_name, (*exact, *possible)), None):
            return [plain], None
        named = exact or [each for each in possible if not _words_of(each).isdisjoint(names)]
    if len(named) == 1:
        return named, None
    columns = named or sorted(possible, key=lambda column: len(column.counts))
    return columns[:_SHOWN], _doubt("label", columns)


def _has_plain_name(column: Column) -> bool:
    """Tells whether a name needs no choice; a `target` in words may be what a text is about."""
    name = normal(column.name)
    return name in _PLAIN_NAMES or (name == "target" and all(map(str.isdecimal, column.counts)))


def _words_of(column: Column) -> set[str]:
    return set(normal(column.name).split())


def _may_be_labels(table: Table, column: Column) -> bool:
    name = normal(column.name)
    is_named = table.has_header and is_label_name(column.name)
    if column.kind != "label":
        # Few records have few texts a class.
        is_short = column.kind in ("word", "id") or (column.kind == "text" and column.num_words <= 2)
        return is_named and is_short and 1 < len(column.counts) <= MAX_CLASSES and name not in NAMES_OF_TEXTS
    if {value.lower() for value in column.counts} <= _SPLITS:
        return False
    is_other = table.has_header and (_IDS.fullmatch(name) or name in NAMES_OF_TEXTS)
    return is_named or not is_other


def is_label_name(column: str) -> bool:
    """Tells whether a column has a usual name of labels, or one with such a word, as `intent label`."""
    name = normal(column)
    return not {name, *name.split()}.isdisjoint(NAMES_OF_LABELS)


def _texts_of(sample: Sample, table: Table, label: Column | None) -> tuple[list[Column], Doubt | None]:
    """
    Returns the column of the text, or both of a pair, and the doubt if several columns may be it. A usual
    name chooses one; two columns of similar texts are a pair.
    """
    if sample.texts:
        return [table.columns[name] for name in sample.texts], None
    texts = [
        column
        for column in table.columns.values()
        if column is not label
        and not column.name.endswith(_PARSE)
        and (
            column.kind == "text" or (column.kind in ("word", "label", "id") and _is_text_name(table, column))
        )
    ]
    if not texts:  # short texts that recur
        others = [column for column in table.of_kind("label") if column is not label and column.has_words]
        if label and len(table.columns) == 2 and is_label_name(label.name):
            words = [column for column in table.of_kind("word", "label") if column is not label]
            others = others or [column for column in words if not _IDS.fullmatch(normal(column.name))]
        return sorted(others, key=lambda column: -column.num_words)[:1], None
    if table.has_header:  # of several versions of a text, such as `text_en` and `text_pt`, the first
        names = [frozenset(normal(column.name).split()) - _VERSIONS for column in texts]
        texts = [column for index, column in enumerate(texts) if names[index] not in names[:index]]
    if pair := _pair(table, texts):
        return list(pair), None
    full = [column for column in texts if 2 * len(column.values) > len(table.rows)]
    texts = full or texts  # remarks are seldom
    if len(texts) == 1:
        return texts, None
    *_, next_longest, longest = sorted(texts, key=lambda column: column.num_words)
    doubt = None if longest.num_words >= _LONGER * next_longest.num_words else _doubt("text", texts)
    if not table.has_header:
        return [longest], doubt
    by_name = [column for name in _PLAIN_TEXTS for column in texts if normal(column.name) == name]
    if by_name:
        return by_name[:1], None
    named = [column for column in texts if not _words_of(column).isdisjoint(_PLAIN_TEXTS)]
    if len(named) == 1 and named[0].num_words >= longest.num_words:
        return named, None
    return [longest], doubt


def _is_text_name(table: Table, column: Column) -> bool:
    return table.has_header and normal(column.name) in NAMES_OF_TEXTS and not is_label_name(column.name)


def _pair(table: Table, texts: Sequence[Column]) -> tuple[Column, Column] | None:
    """Returns the columns of a pair: by their names, or the only two, with similar texts."""
    filled = [column for column in texts if 10 * len(column.values) > 9 * len(table.rows)]
    by_name = {normal(column.name): column for column in filled}
    if table.has_header:
        for names in NAMES_OF_PAIRS:
            if set(names) <= by_name.keys():
                return by_name[names[0]], by_name[names[1]]
        alike = [pair for pair in combinations(filled, 2) if _are_contrasted(*pair)]
        if alike and not _are_choices(table, alike[0][0]):
            return alike[0]
        if not _WHOLE.isdisjoint(by_name):
            return None
    if len(texts) != 2 or len(filled) != 2:
        return None
    short, long = sorted(column.num_words for column in texts)
    return (texts[0], texts[1]) if short > 2 and long <= _MOST_UNLIKE * short else None


def _are_choices(table: Table, first: Column) -> bool:
    """Tells whether a column is one of several to choose from, such as `ending0` to `ending3`."""
    others = {re.sub(r"1(?!\d)", digit, first.name) for digit in "03"} - {first.name}
    return bool(_words_of(first) & _CHOICES) or not others.isdisjoint(table.columns)


def _are_contrasted(first: Column, second: Column) -> bool:
    """Tells whether two names are alike but for one part, such as `sent_more` and `sent_less`, or `qtext`."""
    one, other = first.name.lower(), second.name.lower()
    for a, b in CONTRASTS:
        kind = r"\d" if a.isdecimal() else "[a-z]"
        if re.sub(rf"(?<!{kind}){a}(?!{kind})", b, one) == other != one:
            return True
    letters = (one[:1], other[:1])
    return letters in CONTRASTS and one[1:] == other[1:] and len(one) > 3


def _doubt(what: str, columns: Sequence[Column]) -> Doubt | None:
    if len(columns) < 2:
        return None
    return Doubt(what, [column.shown() for column in columns], [column.name for column in columns])


def _problem(sample: Sample, table: Table, labels: Sequence[Column]) -> InputError:
    """Returns what the nearest reading of a table lacks."""
    file = sample.files[0]
    if table.problem and len(table.rows) < 2:
        return table.problem
    texts = table.of_kind("text")
    columns = f"the columns {shorten(', '.join(table.columns), 200)}"
    if labels:
        remedy = "--text names it" if table.has_header else ""
        return InputError(
            f"no column has texts for the labels in {labels[0].name!r}", where=file, remedy=remedy
        )
    lists = [] if sample.has_records else table.of_kind("list")
    if not texts and not any(re.search("[^\\W\\d]", value) for column in lists for value in column.strings):
        what = "JSON" if sample.is_json else "a table"
        return InputError(f"this is {what} with {columns}, none of which has texts", where=file)
    for column in table.of_kind("labels"):
        several = next(filter(re.compile("[,;|]").search, column.strings), "")
        return _several_labels(file, f"{several} in the column {column.name!r}")
    for column in table.of_kind("tags"):
        problem = f"the tags in the column {column.name!r} are not as many as the words of a text in each row"
        return InputError(problem, where=file)
    if scores := _scores(table):
        return _are_scores(file, scores)
    for column in table.of_kind("constant"):
        if is_label_name(column.name):
            return InputError(f"the column {column.name!r} has one class, {column.strings[0]!r}", where=file)
    for column in table.columns.values():
        if is_label_name(column.name) and column.values and column not in texts:
            what = f"the column {column.name!r} has a value of its own for each text, which are no classes"
            return InputError(what, where=file, remedy="--label names another column")
    if lists:
        problem = f"the cells of {lists[0].name!r} hold lists"
        return InputError(problem, where=file, remedy="export JSON Lines or Parquet, which keep lists")
    return InputError(f"no column has classes, of {columns}", where=file, remedy="--label names it")


def _is_unlabelled(table: Table, labels: Sequence[Column]) -> bool:
    """Tells whether a table has texts, and nothing in it looks like labels, such as scores."""
    texts = table.of_kind("text")
    others = [column for column in table.columns.values() if column not in texts and column.kind != "empty"]
    has_labels = (
        labels
        or table.of_kind("labels", "tags")
        or any(value.startswith("{") for column in table.of_kind("list") for value in column.strings)
        or any(is_label_name(column.name) for column in others)
    )
    return bool(texts) and not (has_labels or _scores(table))


def _is_verdict(label: Column) -> bool:
    """Tells whether labels are named so, or are answers such as yes and no."""
    values = {value.lower() for value in label.counts}
    return is_label_name(label.name) or values <= _VERDICTS or _are_entailment(values)


def _scores(table: Table) -> Column | None:
    """Returns a column of numbers, some of them with fractions, that are called scores, or a label."""
    numbers = [
        column
        for column in table.of_kind("number")
        if _SCORE_NAME.search(normal(column.name)) or is_label_name(column.name)
    ]
    return next((each for each in numbers if any(map(_FRACTION.fullmatch, each.strings))), None)


def _are_scores(file: Path, column: Column) -> InputError:
    problem = f"the column {column.name!r} has scores, which are not classes"
    return InputError(problem, where=file, remedy="--label names another column")


def _several_labels(file: Path, what: str) -> InputError:
    remedy = "choose a column with --label, or make a column for each label"
    return InputError(f"the texts have several labels, {what}", where=file, remedy=remedy)


def completed(sample: Sample, keys: Mapping[str, Any]) -> dict[str, Any]:
    """
    Returns the keys of a classifier's reader with those that need all records, or many texts: the `classes`,
    in order, and the tokenizer of scripts without blanks between words.
    """
    if "classes" in keys or keys.get("format") == "label_text" or "label" not in keys:
        counts, texts = _of_lines(sample, keys)
    else:
        names = [keys[name] for name in ("sentence1", "sentence2") if name in keys]
        counts, texts = read_values(sample, keys, keys["label"], names)
    classes = keys.get("classes") or _in_order(counts)
    if len(classes) < 2:
        what = f"there are not two classes, but {', '.join(classes) or 'none'}"
        raise InputError(what, where=sample.files[0])
    tokenizer = tokenizer_of_texts(texts)
    return {**keys, "classes": classes} | ({} if tokenizer is None else {"tokenizer": tokenizer})


def read_values(
    sample: Sample, keys: Mapping[str, Any], label: str, texts: Sequence[str]
) -> tuple[Counter[str], list[str]]:
    """Reads all records; returns how often each label occurs, and the first texts."""
    counts: Counter[str] = Counter()
    first: list[str] = []
    names_of_classes: list[str] | None = None
    for file in sample.files:
        names_of_classes = names_of_classes or (class_names(file).get(label) if sample.is_parquet else None)
        layout = DelimitedLayout(keys.get("columns"))
        for record in read_records(file, layout=layout, encoding=sample.encoding):
            values = record.make(dict)
            if isinstance(values, InputError) or is_rejected(values, label):
                continue
            if (value := values.get(label)) not in (None, ""):
                counts[as_label(value)] += 1
            if len(first) < MAX_CLASSES:
                first += (str(values.get(name) or "") for name in texts)
    if label == GOLD:
        del counts[UNDECIDED]
    if names_of_classes:
        counts = Counter(dict.fromkeys(names_of_classes, 1))
    return counts, first


def _of_lines(sample: Sample, keys: Mapping[str, Any]) -> tuple[Counter[str], list[str]]:
    """Returns the labels of lines, or of a file of labels beside the texts, and the first texts."""
    if keys.get("format") == "label_files":
        files = filter(None, map(label_file, sample.files))
        lines = (line for file in files for _, line in nonblank_lines(file, sample.encoding))
        return Counter(map(str.strip, lines)), list(sample.lines)
    if "classes" in keys:
        return Counter(), list(sample.lines)
    lines = (line for file in sample.files for _, line in nonblank_lines(file, sample.encoding))
    if keys.get("format") == "label_text":
        labels = (line.split(maxsplit=1)[0].partition(":")[0] for line in lines)
        return Counter(labels), [line.partition(" ")[2] for line in sample.lines]
    words = (word for line in lines for word in line.split() if word.startswith(FASTTEXT))
    return Counter(word.removeprefix(FASTTEXT) for word in words), list(map(without_labels, sample.lines))


def _in_order(labels: Collection[str]) -> list[str]:
    are_numbers = all(re.fullmatch(r"-?\d+", label) for label in labels)
    return sorted(labels, key=int if are_numbers else str)


def unread_texts(rows: Sequence[Mapping[str, Any]], read: Collection[str]) -> list[str]:
    """Returns the columns that are not read and may be texts or labels."""
    columns = [column for name, column in Table(rows).columns.items() if name not in read]
    return [
        each.name for each in columns if each.kind in ("text", "label") and not each.name.endswith(_PARSE)
    ]


# Paths and first words


def _classes_of_paths(sample: Sample) -> set[str]:
    """Returns the names of folders, or else of files, if they may be classes."""
    folders = {file.parent for file in sample.files}
    innermost = folders.difference(*(folder.parents for folder in folders))
    files = [file for file in sample.files if file.parent in innermost]
    if len(files) < 2 or any(file.suffix in _TABLE_FILES for file in files):
        return set()
    for names in ({folder.name for folder in innermost} - _UNLABELLED, _names_of_files(files, sample)):
        parts = {part for name in names for part in re.split(r"[\W_]", name)}
        if 1 < len(names) <= MAX_CLASSES and not parts & (_SPLITS | _KINDS_OF_FILES):
            return names
    return set()


def _names_of_files(files: Sequence[Path], sample: Sample) -> set[str]:
    names = {file.stem for file in files}
    if len(names) < len(files):
        names = {file.suffix[1:] for file in files}
    return set() if "txt" in names or sample.has_blank_lines or _has_tabs(sample) else names


def _has_tabs(sample: Sample) -> bool:
    return bool(sample.lines) and all("\t" in line for line in sample.lines)


def _first_words(sample: Sample) -> set[str]:
    """Returns the first words of the lines, before a colon, if they may be labels: two or more, and few."""
    if not sample.lines or sample.has_blank_lines or _has_tabs(sample):
        return set()
    if len({file.suffix for file in sample.files}) > 1:
        return set()
    words = [line.split(maxsplit=1) for line in sample.lines + sample.spread]
    labels = {parts[0].partition(":")[0] for parts in words if parts}
    is_few = 2 <= len(labels) <= min(len(words) // 2, MAX_CLASSES)
    numbers = [int(parts[0]) for parts in words if parts and parts[0].isdecimal()]
    if sum(after == before + 1 for before, after in pairwise(numbers)) > len(words) // 2:
        return set()  # the lines are numbered
    have_texts = len(words) < 1.3 * sum(len(parts) == 2 for parts in words)
    return labels if is_few and have_texts and all(map(_LABEL.fullmatch, labels)) else set()
