"""
How data of an unknown kind are read as texts, or pairs of texts, with a class each.

A table with one column of labels and one of texts is classification; with two columns of texts, pairs; with
labels of entailment, SNLI. Names break ties between columns. Where they do not, the finding has a `Doubt`.
"""

import re
import shlex
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import chain, combinations, pairwise
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
from elmo_tasks.data.formats.records import ANSWER, class_names, is_rejected
from elmo_tasks.data.formats.sample import HEAD, TABLE_FILES, Sample, sample_of_files
from elmo_tasks.data.formats.texts import FASTTEXT, READ, TextOptions, is_fasttext, label_file
from elmo_tasks.data.input_files import InputError, shorten
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
_IDS = re.compile(
    r"(.* )?(id|ids|idx|index|uid|guid|number|nr|no|count|page|line|date|time|timestamp|year|month|day)"
)
_FEW_CLASSES = 20
"""The classes of a column that is asked about beside one with a better name, at most."""
_SPLITS = {"train", "training", "dev", "valid", "validation", "test", "trial", "part", "shard", "chunk"}
_KINDS_OF_FILES = {
    *("text", "texts", "txt", "ann", "src", "tgt", "source", "target", "input", "output", "gold", "data")
}
"""The parts of a set, in its files' names or in a column, which are not names of classes."""
_PARSE = "_parse"
_UNLIKE = 3
"""The texts of a pair have similar lengths, a title and its text do not."""
_VERSIONS = {
    *("en", "de", "fr", "es", "pt", "it", "zh", "ja", "ar", "html", "raw", "clean", "cleaned", "original"),
    *("tokenized", "tokenised", "normalized", "normalised", "translated", "translation", "lemmatized"),
    *("stemmed", "annot", "annotated", "processed", "preprocessed", "lower", "plain", "str"),
}
"""Parts of the names of versions of a text."""
_LONGER = 2
"""A text has twice as many words as its title, at least."""
_UNLABELLED = {"unsup"}
"""Folders without a class, as in IMDB."""
_SCORE_NAME = re.compile("score|similarity|relatedness")
_FRACTION = re.compile(r"-?\d*\.0*[1-9]\d*")
_LABEL = re.compile(r"[\w.+-]+")
_WORDS = re.compile(r"[^\W\d_]{2,}([\W_]+[^\W\d_]+)*")
"""The name of a class."""
_PART = re.compile(r"\d+|(?<![^\W_])[^\W\d_](?![^\W_])")
"""What differs in the names of the parts of a text: a number, or a letter alone."""
_CODE = re.compile(r"\d+|(?![AI]\b)[A-Z]+(:\w+)?")
"""A label at the start of a line that is hardly the first word of a sentence."""
_FIRST_WORDS = {"how", "she", "the", "they", "this", "what", "when", "where", "which", "who", "why", "you"}
"""Words that begin a sentence, and are no labels."""


def find_texts(sample: Sample) -> Finding:
    """Returns how a classifier's reader reads data: by paths, fastText's marks, columns, or first words."""
    if any(map(label_file, sample.files)):
        return Finding(Fit.CERTAIN, [{"format": "label_files"}])
    if names := _classes_of_paths(sample):
        are_folders = names <= {file.parent.name for file in sample.files}
        fit = Fit.LIKELY if are_folders or all(map(_WORDS.fullmatch, names)) else Fit.POSSIBLE
        has_texts = any(num_words(line) > 1 for line in sample.lines)
        return Finding(fit if has_texts else Fit.NO, [{"classes": sorted(names)}])
    if is_fasttext(sample.lines):
        have_several = any(line.count(FASTTEXT) > 1 for line in sample.lines)
        return Finding(Fit.CERTAIN, [{"several_labels": True} if have_several else {}])
    if table := read_table(sample):
        return _find_in_table(sample, table)
    if labels := _first_words(sample):
        fit = Fit.LIKELY if all(map(_CODE.fullmatch, labels)) else Fit.POSSIBLE
        return Finding(fit, [{"format": "label_text"}])
    return Finding(Fit.NO)


def find_pairs(sample: Sample) -> Finding:
    """Returns how a reader of pairs reads data. The labels may be numbers, or others than SNLI's."""
    if (table := read_table(sample)) is None:
        return Finding(Fit.NO)
    if not table.has_header:
        label = next((column for column in table.columns.values() if _are_entailment(column.counts)), None)
        texts = [column.name for column in table.of_kind("text") if column is not label]
        ways = []
        if label and len(texts) > 1:
            roles = {"premise": texts[0], "hypothesis": texts[1], "label": label.name}
            ways = [(roles, {"columns": list(table.columns), **roles})]
    else:
        premises = COLUMN_NAMES["premise"]
        endings = (name.lower().removeprefix(first) for name in table.columns for first in premises)
        ways = [
            (roles, dict(roles) if ending else {})
            for ending in dict.fromkeys(["", *endings])  # as in `sentence_A_En`, of several languages
            if all((roles := _roles(table, ending)).values())
        ]
    labels = (table.columns[roles["label"]].counts for roles, _ in ways)
    if any(_FRACTION.fullmatch(label) for counts in labels for label in counts):
        return Finding(Fit.NO)
    found = [_with_classes(table, roles, keys) for roles, keys in ways]
    if ways and not any(found):
        remedy = (
            'say what they mean, for RTE {"classes": ["entailment", "not_entailment"], '
            '"label_names": {"0": "entailment", "1": "not_entailment"}}'
        )
        label = table.columns[ways[0][0]["label"]]
        what = f"the labels {shorten(', '.join(sorted(label.counts)))} in {label.name!r} are not SNLI's"
        return Finding(Fit.POSSIBLE, problem=_error(sample, what, remedy))
    fits = list(filter(None, found))
    return Finding(max((fit for fit, _ in fits), default=Fit.NO), [keys for _, keys in fits])


def _roles(table: Table, ending: str) -> dict[str, Any]:
    return {name: known_column(name, table.columns, ending) for name in COLUMN_NAMES}


def _with_classes(
    table: Table, roles: Mapping[str, str], keys: dict[str, Any]
) -> tuple[Fit, dict[str, Any]] | None:
    """Returns the fit and the keys of a reader of pairs with the labels of a column, if it can read them."""
    classes = {*table.columns[roles["label"]].counts} - {*UNDECIDED_PAIRS}
    is_named = _are_entailment(classes) or "premise" in table.columns
    if classes <= {*ENTAILMENT_LABELS, *OTHER_NAMES}:
        return Fit.CERTAIN, keys
    if classes == {"0", "1", "2"}:
        numbers = {str(number): name for number, name in enumerate(ENTAILMENT_LABELS)}
        return (Fit.CERTAIN if is_named else Fit.LIKELY), keys | {"label_names": numbers}
    return (Fit.CERTAIN, keys | {"classes": sorted(classes)}) if is_named else None


def known_column(name: str, columns: Iterable[str], ending: str = "") -> str | None:
    """Returns the column with one of the names of published sets of entailment, whatever its case."""
    names = [each + ending for each in COLUMN_NAMES[name]]
    exact = next((each for each in names if each in columns), None)
    return exact or next((column for each in names for column in columns if column.lower() == each), None)


def _are_entailment(classes: Iterable[str]) -> bool:
    return any("entail" in name.lower() for name in classes)


# Tables


def _find_in_table(sample: Sample, table: Table) -> Finding:
    if missing := [name for name in (sample.label, *sample.texts) if name and name not in table.columns]:
        what = f"no column is {missing[0]!r}, only {', '.join(table.columns)}"
        return Finding(Fit.LIKELY, problem=_error(sample, what))
    label, label_doubt = _label_of(sample, table)
    texts, text_doubt = _texts_of(sample, table, label)
    names = [column.name for column in [*filter(None, [label]), *texts]]
    if others := _files_without(sample, {name.lower() for name in names}):
        without = shorten(" and ".join(each.name for each in others))
        what = f"the columns are {', '.join(names)}, which {without} beside it do not have"
        return Finding(Fit.LIKELY, problem=_error(sample, what, "give this path alone"))
    columns = [] if table.has_header else list(table.columns)
    keys: dict[str, Any] = {"columns": columns} if columns else {}
    keys |= {f"sentence{i}": text.name for i, text in enumerate(texts, start=1)}
    if texts and (several := _several_labels(sample, table)):
        return Finding(Fit.LIKELY, [keys | several], doubts=list(filter(None, [text_doubt])))
    if texts and label is None and _is_unlabelled(table):
        unlabelled = {"texts": [text.name for text in texts], "columns": columns}
        return Finding(Fit.NO, doubts=list(filter(None, [text_doubt])), unlabelled=unlabelled)
    if label is None or not texts:
        damage = table.problem if len(table.rows) < 2 else None
        return Finding(Fit.POSSIBLE, problem=damage or _error(sample, *_lack(sample, table, label)))
    is_named = label.plain_name in NAMES_OF_LABELS or any(text.plain_name in NAMES_OF_TEXTS for text in texts)
    scores = next((each for each in _scores(table) if _SCORE_NAME.search(each.plain_name)), None)
    is_chosen = sample.label or is_label_name(label.name) or _are_entailment(label.counts)
    if scores and len(texts) == 2 and not is_chosen:
        return Finding(Fit.LIKELY, problem=_error(sample, *_scored(scores)))
    keys["label"] = label.name
    fit = Fit.CERTAIN if is_named and not label_doubt else Fit.LIKELY
    return Finding(fit, [keys], doubts=list(filter(None, [label_doubt, text_doubt])))


def _files_without(sample: Sample, names: set[str]) -> list[Path]:
    """Returns the tables after the first whose first line lacks names that its first line has."""
    if len(sample.files) < 2 or not names <= sample.first_cells:
        return []
    others = (sample_of_files([file], sample.encoding) for file in sample.files[1:])
    return [each.files[0] for each in others if not names <= each.first_cells]


def _label_of(sample: Sample, table: Table) -> tuple[Column | None, Doubt | None]:
    """
    Returns the column of the labels: of those that may be it, the one with the best name. Where there are
    several, and none has a plain name such as `label`, there is a doubt.
    """
    if sample.label:
        return table.columns[sample.label], None
    if ANSWER in table.columns and is_binary(table.rows):
        return table.columns[ANSWER], None
    possible = list(filter(_may_be_labels, table.columns.values()))
    if not table.of_kind("text"):  # the longest labels are short texts
        longest = max(possible, key=lambda column: column.num_words, default=None)
        possible = [column for column in possible if column is not longest or not column.has_words]
    possible.sort(key=lambda column: (_rank_of_label(column), len(column.counts), _is_of_numbers(column)))
    columns = possible[:1]
    for column in possible[1:]:
        is_seldom = len(column.counts) > _FEW_CLASSES or not re.search(r"\w", "".join(column.counts))
        is_worse = is_seldom and is_label_name(columns[0].name) and not is_label_name(column.name)
        if not (is_worse or any(_are_one_to_one(table, column, better) for better in columns)):
            columns.append(column)
    is_sure = len(columns) < 2 or _rank_of_label(columns[0]) < len(_PLAIN_NAMES)
    return next(iter(columns), None), None if is_sure else _doubt("label", columns)


def _is_of_numbers(column: Column) -> bool:
    return all(value.isdecimal() for value in column.counts)


def _are_one_to_one(table: Table, column: Column, other: Column) -> bool:
    """Tells whether two columns have the same classes, one of them by numbers."""
    pairs = {(str(row.get(column.name)), str(row.get(other.name))) for row in table.rows}
    is_numbered = _is_of_numbers(column) or _is_of_numbers(other)
    return is_numbered and len(pairs) == len(column.counts) == len(other.counts)


def _rank_of_label(column: Column) -> int:
    name = column.plain_name
    if name in _PLAIN_NAMES:
        return _PLAIN_NAMES.index(name)
    if name == "target":  # it may be what a text is about
        return 0 if _is_binary(column) else 300
    return 100 if name in NAMES_OF_LABELS else 200 if is_label_name(name) else 300


def _may_be_labels(column: Column) -> bool:
    is_named = is_label_name(column.name)
    if 2 * len(column.values) < column.num_rows and column.plain_name not in _PLAIN_NAMES:
        return False
    if column.kind != "label":
        # Few records have few texts a class.
        is_short = column.kind in ("word", "id") or (column.kind == "text" and column.num_words <= 2)
        is_named &= column.plain_name not in NAMES_OF_TEXTS
        return is_named and is_short and 1 < len(column.counts) <= MAX_CLASSES
    is_part = column.plain_name in _SPLITS and _is_binary(column)
    is_other = is_part or _IDS.fullmatch(column.plain_name) or column.plain_name in NAMES_OF_TEXTS
    return (is_named or not is_other) and not {*map(str.lower, column.counts)} <= _SPLITS


def is_label_name(column: str) -> bool:
    """Tells whether a column has a usual name of labels, or one with such a word, as `intent label`."""
    name = normal(column)
    return not {name, *name.split()}.isdisjoint(NAMES_OF_LABELS)


def _texts_of(sample: Sample, table: Table, label: Column | None) -> tuple[list[Column], Doubt | None]:
    """
    Returns the column of the text, or both of a pair, and the doubt if several columns may be it: two columns
    of similar texts are a pair, and a text has more words than its title.
    """
    if sample.texts:
        return [table.columns[name] for name in sample.texts], None
    columns = [column for column in table.columns.values() if column is not label]
    texts = [column for column in columns if _may_be_text(column)]
    if not texts:  # short texts that recur
        short = [column for column in columns if column.kind == "label" and column.has_words]
        if label and len(columns) == 1 and is_label_name(label.name):
            words = (column for column in columns if column.kind in ("word", "label"))
            short = short or [column for column in words if not _IDS.fullmatch(column.plain_name)]
        return sorted(short, key=lambda column: -column.num_words)[:1], None
    # Of several versions of a text, such as `text_en` and `text_pt`, the first
    names = [frozenset(column.plain_name.split()) - _VERSIONS for column in texts]
    texts = [column for index, column in enumerate(texts) if names[index] not in names[:index]]
    if pair := _pair(table, texts):
        return list(pair), None
    # Remarks are seldom.
    texts = [column for column in texts if 2 * len(column.values) > len(table.rows)] or texts
    first, *others = sorted(texts, key=lambda column: (column.plain_name != "text", -column.num_words))
    is_named = first.plain_name == "text" or not others
    is_sure = is_named or first.num_words >= _LONGER * others[0].num_words
    return [first], None if is_sure else _doubt("text", texts)


def _may_be_text(column: Column) -> bool:
    is_named = column.plain_name in NAMES_OF_TEXTS and column.kind in ("word", "label", "id")
    return not column.name.endswith(_PARSE) and (column.kind == "text" or is_named)


def _pair(table: Table, texts: Sequence[Column]) -> Sequence[Column] | None:
    """Returns the columns of a pair: by their names, or the only two, with similar texts."""
    filled = {column.plain_name: column for column in texts if 10 * len(column.values) > 9 * len(table.rows)}
    if table.has_header:
        named = (pair for pair in NAMES_OF_PAIRS if filled.keys() >= set(pair))
        series = Counter(re.sub(r"\d", "", column.plain_name) for column in texts)
        contrasted = (
            pair
            for pair in combinations(filled, 2)
            if series[re.sub(r"\d", "", pair[0])] < 3 and _are_contrasted(*pair)
        )
        if pair := next(chain(named, contrasted), None):
            return [filled[name] for name in pair]
        if not filled.keys().isdisjoint(NAMES_OF_TEXTS):
            return None
    if len(texts) != 2 or len(filled) != 2:
        return None
    short, long = sorted(column.num_words for column in texts)
    return texts if short > 2 and long <= _UNLIKE * short else None


def _are_contrasted(first: str, second: str) -> bool:
    """Tells whether two names are alike but for one part, such as `sent more` and `sent less`, or `qtext`."""
    for a, b in CONTRASTS:
        kind = r"\d" if a.isdecimal() else "[a-z]"
        if re.sub(rf"(?<!{kind}){a}(?!{kind})", b, first) == second != first:
            return True
    return (first[:1], second[:1]) in CONTRASTS and first[1:] == second[1:] and len(first) > 3


def _doubt(what: str, columns: Sequence[Column]) -> Doubt:
    return Doubt(what, [column.shown() for column in columns], [column.name for column in columns])


def _error(sample: Sample, what: str, remedy: str = "") -> InputError:
    return InputError(what, where=sample.shown(sample.files[0]), remedy=remedy)


def _scored(column: Column) -> tuple[str, str]:
    return f"the column {column.name!r} has scores, which are not classes", "--label names another column"


def _lack(sample: Sample, table: Table, label: Column | None) -> tuple[str, str]:
    """Returns what a table lacks, and what to do."""
    if label:
        return f"no column has texts for the labels in {label.name!r}", "--text names it"
    if not table.rows:
        return "this is a table with a first line alone, and no rows below it", ""
    columns, other = shorten(", ".join(table.columns), 200), "--label names another column"
    lists = [] if sample.has_records else table.of_kind("list")
    if not table.of_kind("text") and not any(re.search(r"[^\W\d]", str(each.values)) for each in lists):
        what = "JSON" if sample.is_json else "a table"
        return f"this is {what} with the columns {columns}, none of which has texts", ""
    for column in table.of_kind("tags"):
        return f"the tags in {column.name!r} are not as many as the words of a text in each row", ""
    for column in _scores(table):
        return _scored(column)
    for column in filter(lambda column: is_label_name(column.name), table.columns.values()):
        if column.kind == "constant":
            return f"the column {column.name!r} has one class, {column.strings[0]!r}", other
        if column.kind in ("list", "labels"):
            lists.insert(0, column)
        elif 2 * len(column.counts) <= len(column.values) > 2 * MAX_CLASSES:
            remedy = f"--label {shlex.quote(column.name)} reads them"
            return f"the column {column.name!r} has more than {MAX_CLASSES} classes", remedy
        elif column.kind not in ("text", "empty"):
            return f"the column {column.name!r} has a value of its own for each text, no classes", other
    for column in lists:
        read = "`allennlp elmo tag` reads entities" if sample.has_records else "export JSON Lines or Parquet"
        return f"the cells of {column.name!r} hold lists, such as {shorten(column.strings[0])}", read
    return f"no column has classes, of the columns {columns}", "--label names it"


def _is_unlabelled(table: Table) -> bool:
    """Tells whether nothing in a table looks like labels, such as scores."""
    others = [column for column in table.columns.values() if column.kind not in ("text", "empty")]
    return bool(table.of_kind("text")) and not (
        table.of_kind("labels", "tags")
        or any(value.startswith("{") for column in table.of_kind("list") for value in column.strings)
        or any(is_label_name(column.name) for column in others)
        or _scores(table)
    )


def _scores(table: Table) -> list[Column]:
    """Returns the columns of numbers, some of them with fractions, that are called scores, or a label."""
    return [
        column
        for column in table.of_kind("number")
        if (_SCORE_NAME.search(column.plain_name) or is_label_name(column.name))
        and any(map(_FRACTION.fullmatch, column.strings))
    ]


def _several_labels(sample: Sample, table: Table) -> dict[str, Any] | None:
    """
    Returns the keys of texts with several labels: a column of lists, or of labels with a mark between, or
    columns that hold 0 and 1 alone; `None` if there is neither.
    """
    columns = [table.columns[sample.label]] if sample.label else list(table.columns.values())
    others = [column for column in columns if _may_be_labels(column) and not _is_binary(column)]
    lists = [column for column in columns if column.kind == "labels"]
    if len(lists) == 1 and not others:
        column = lists[0]
        marks = Counter(mark for value in column.strings for mark in ",;|" if mark in value)
        is_list = any(isinstance(value, list) for value in column.values)
        return {"label": column.name, "several_labels": is_list or marks.most_common(1)[0][0]}
    binary = [column.name for column in columns if _is_binary(column)]
    return {"label": binary} if len(binary) > 1 and not others else None


def _is_binary(column: Column) -> bool:
    """Tells whether a column holds 0 and 1, or one of both."""
    is_whole = column.counts.keys() <= {"0", "1", "0.0", "1.0", "true", "false", "True", "False"}
    return bool(column.values) and is_whole and not _IDS.fullmatch(column.plain_name)


def completed(sample: Sample, keys: Mapping[str, Any]) -> dict[str, Any]:
    """
    Returns the keys of a classifier's reader with those that need all records, or many texts: the `classes`,
    in order, and the tokenizer of scripts without blanks between words.
    """
    classes, texts = keys.get("classes"), list(sample.lines)
    if classes is None:
        classes, texts = _classes_and_texts(sample, keys)
    if len(classes) < 2:
        raise _error(sample, f"there are not two classes, but {', '.join(classes) or 'none'}")
    tokenizer = tokenizer_of_texts(texts)
    return {**keys, "classes": classes} | ({} if tokenizer is None else {"tokenizer": tokenizer})


def _classes_and_texts(sample: Sample, keys: Mapping[str, Any]) -> tuple[list[str], list[str]]:
    """Reads all records; returns their classes in order, and the first texts."""
    label, several = keys.get("label", "label"), keys.get("several_labels", False)
    columns = label if isinstance(label, list) else []
    texts = [keys.get("sentence1", "text"), keys.get("sentence2")]
    format = keys.get("format") or (sample.record_format if "label" in keys else "fasttext")
    options = TextOptions(layout=DelimitedLayout(keys.get("columns")), encoding=sample.encoding)
    classes: set[str] = set()
    first: list[str] = []
    for file in sample.files:
        if format == "label_files" and label_file(file) is None:
            continue
        for record in READ[format](file, options):
            values = record.make(dict)
            if isinstance(values, InputError) or is_rejected(values, "" if columns else label):
                continue
            value = None if columns else values.get(label)
            if several and isinstance(value, str | list):
                labels = value if isinstance(value, list) else value.split(several)
                classes.update(filter(None, map(as_label, labels)))
            elif value not in (None, "", *([UNDECIDED] if label == GOLD else ())):
                classes.add(as_label(value))
            if len(first) < HEAD:
                first += (str(values.get(name) or "") for name in texts)
    if format == "label_text":
        classes = {name.partition(":")[0] for name in classes}
    if sample.is_parquet:
        classes = {*class_names(sample.files[0]).get(label, classes)}
    return columns or _in_order(classes), first


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
    if len(files) < 2 or any(file.suffix in (*TABLE_FILES, ".json", ".jsonl", ".parquet") for file in files):
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
    are_parts = len({_PART.sub("", name) for name in names}) < len(names)
    return set() if "txt" in names or are_parts or sample.has_blank_lines or _has_tabs(sample) else names


def _has_tabs(sample: Sample) -> bool:
    return bool(sample.lines) and all("\t" in line for line in sample.lines)


def _first_words(sample: Sample) -> set[str]:
    """Returns the first words of the lines, if what is before a colon may be labels: two or more, and few."""
    are_of_a_kind = len({file.suffix for file in sample.files}) == 1
    if not (sample.lines and are_of_a_kind) or sample.has_blank_lines or _has_tabs(sample):
        return set()
    words = [line.split(maxsplit=1) for line in sample.lines + sample.spread if line.strip()]
    first = {parts[0] for parts in words}
    labels = {word.partition(":")[0] for word in first}
    is_few = 2 <= len(labels) <= min(len(words) // 2, MAX_CLASSES)
    numbers = [int(parts[0]) for parts in words if parts[0].isdecimal()]
    if sum(after == before + 1 for before, after in pairwise(numbers)) > len(words) // 2:
        return set()  # the lines are numbered
    have_texts = len(words) < 1.3 * sum(len(parts) == 2 for parts in words)
    may_be_labels = _FIRST_WORDS.isdisjoint(map(str.lower, labels)) and all(map(_LABEL.fullmatch, labels))
    return first if is_few and have_texts and may_be_labels else set()
