"""Gold that is written in a reader's own format is read as it was."""

import csv
import io
import json
import re
from collections import defaultdict
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader
from hypothesis import assume, given
from hypothesis import strategies as st

from elmo_tasks.coref.documents import CorefDocument
from elmo_tasks.data.formats.coreference import read_documents
from elmo_tasks.data.tag_schemes import Scheme, Span, from_spans
from elmo_tasks.srl.metric import from_tags
from tests.records import json_lines


def reading(path: Path, **block: object) -> list[Any]:
    """The fields of each instance."""
    return [instance.fields for instance in DatasetReader.from_params(Params(block)).read(str(path))]


WORDS = st.text(
    # No blanks, line breaks, control characters, nor the mark that begins some files
    st.characters(exclude_categories=("C", "Z")),
    min_size=1,
    max_size=4,
)
SENTENCES = st.lists(WORDS, min_size=1, max_size=6)


@st.composite
def labelled(draw: st.DrawFn, labels: tuple[str, ...]) -> tuple[list[str], list[Span]]:
    """A sentence, and spans of it that do not overlap."""
    words = draw(SENTENCES)
    spans, start = [], 0
    while start < len(words):
        end = draw(st.integers(start + 1, len(words)))
        if draw(st.booleans()):
            spans.append(Span(start, end, draw(st.sampled_from(labels))))
        start = end
    return words, spans


def rows(*cells: list[str]) -> str:
    """Lines of columns."""
    return "".join(" ".join(row) + "\n" for row in zip(*cells, strict=True)) + "\n"


@pytest.mark.parametrize("scheme", Scheme, ids=str)
@given(sentences=st.lists(labelled(("PER", "creative-work", "X")), min_size=1, max_size=4))
def test_ner(tmp_path, scheme, sentences):
    file = tmp_path / "x.conll"
    file.write_text("".join(rows(words, from_spans(spans, len(words), scheme)) for words, spans in sentences))
    for tag_scheme in (scheme.value, "auto"):
        instances = reading(file, type="elmo_ner", columns=["word", "tag"], tag_scheme=tag_scheme)
        gold = [fields["metadata"].metadata for fields in instances]
        assert [sentence.words for sentence in gold] == [words for words, _ in sentences]
        tags = [from_spans(spans, len(words), Scheme.IOB2) for words, spans in sentences]
        assert [sentence.gold_tags for sentence in gold] == tags


@st.composite
def propositions(draw: st.DrawFn) -> tuple[list[str], list[tuple[int, list[str]]]]:
    """A sentence, its predicates, and the tags of their arguments."""
    words = draw(SENTENCES)
    predicates = draw(st.lists(st.integers(0, len(words) - 1), min_size=1, max_size=3, unique=True))
    of_each = []
    for predicate in sorted(predicates):
        spans = [Span(predicate, predicate + 1, "V")]
        for side in (range(predicate), range(predicate + 1, len(words))):
            if len(side) and draw(st.booleans()):
                start = draw(st.sampled_from(side))
                end = draw(st.integers(start + 1, side.stop))
                spans.append(Span(start, end, draw(st.sampled_from(("ARG0", "R-ARG1", "C-ARG0", "AM-TMP")))))
        of_each.append((predicate, from_spans(sorted(spans), len(words), Scheme.IOB2)))
    return words, of_each


def srl_cells(tags: list[str]) -> list[str]:
    """A column of arguments: `(ARG0*`, `*`, `*)`."""
    following = [*tags[1:], "O"]
    return [
        (f"({tag[2:]}*" if tag.startswith("B-") else "*")
        + (")" if tag != "O" and not after.startswith("I-") else "")
        for tag, after in zip(tags, following, strict=True)
    ]


def srl_json(words: list[str], of_each: list[tuple[int, list[str]]]) -> str:
    predicates = [
        {"index": index, "arguments": [argument._asdict() for argument in from_tags(tags)]}
        for index, tags in of_each
    ]
    return json.dumps({"tokens": words, "predicates": predicates}) + "\n"


def srl_columns(words: list[str], of_each: list[tuple[int, list[str]]]) -> str:
    indices = [index for index, _ in of_each]
    marks = ["fly" if index in indices else "-" for index in range(len(words))]
    return rows(words, marks, *(srl_cells(tags) for _, tags in of_each))


@pytest.mark.parametrize("write", [srl_json, srl_columns])
@given(sentences=st.lists(propositions(), min_size=1, max_size=3))
def test_srl(tmp_path, write, sentences):
    file = tmp_path / "x"
    file.write_text("".join(write(*sentence) for sentence in sentences))
    instances = reading(file, type="elmo_srl", columns=["word", "predicate", "arguments"])
    gold = [fields["metadata"].metadata for fields in instances]
    expected = [(words, *proposition) for words, of_each in sentences for proposition in of_each]
    # Arguments, since a C-X with no X before it is an X
    wanted = [(words, index, from_tags(tags)) for words, index, tags in expected]
    assert [(each.words, each.predicate, from_tags(each.gold_tags)) for each in gold] == wanted


@st.composite
def documents(draw: st.DrawFn) -> CorefDocument:
    """Mentions of one cluster do not cross, since columns cannot say so."""
    sentences = draw(
        st.lists(SENTENCES.filter(lambda words: not {"/.", "/?"} & {*words}), min_size=1, max_size=3)
    )
    tokens = sum(map(len, sentences))
    ends = st.tuples(st.integers(0, tokens - 1), st.integers(0, tokens - 1)).map(
        lambda pair: tuple(sorted(pair))
    )
    clusters: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for first, last in draw(st.lists(ends, max_size=6, unique=True)):
        cluster = clusters[draw(st.integers(0, 2))]
        if not any(a < first <= b < last or first < a <= last < b for a, b in cluster):
            cluster.append((first, last))
    return CorefDocument.of(
        sentences,
        id="a/b_0",
        speakers=[[draw(st.sampled_from(("-", "Ana", "#2")))] * len(words) for words in sentences],
        clusters=list(filter(None, clusters.values())),
    )


def coref_json(document: CorefDocument) -> str:
    rest = iter(document.speakers)
    speakers = [[next(rest) for _ in words] for words in document.sentences]
    values = {"doc_key": document.id, "sentences": document.sentences, "speakers": speakers}
    return json.dumps(values | {"clusters": document.clusters}) + "\n"


def coref_columns(document: CorefDocument) -> str:
    marks: dict[int, list[tuple[int, str]]] = defaultdict(list)
    for name, cluster in enumerate(document.clusters or ()):
        for first, last in cluster:
            if first == last:
                marks[first].append((1, f"({name})"))
            else:
                marks[first].append((2, f"({name}"))
                marks[last].append((0, f"{name})"))
    lines, indices = ["#begin document (a/b); part 000"], count()

    def line(number: int, word: str, index: int) -> str:
        chains = "|".join(mark for _, mark in sorted(marks[index])) or "-"
        cells = ["a/b", "0", str(number), word, *["-"] * 5, document.speakers[index], "*", chains]
        return "   ".join(cells)

    for words in document.sentences:
        lines += [line(i, word, next(indices)) for i, word in enumerate(words)]
        lines.append("")
    return "\n".join([*lines, "#end document\n"])


@pytest.mark.parametrize("write", [coref_json, coref_columns])
@given(document=documents())
def test_coref(tmp_path, write, document):
    file = tmp_path / "x"
    file.write_text(write(document))
    assert [CorefDocument.from_record(each.values) for each in read_documents(file)] == [document]
    (fields,) = reading(file, type="elmo_coref")
    assert fields["metadata"].metadata == document


def as_csv(records: list[dict[str, str]]) -> str:
    text = io.StringIO()
    writer = csv.DictWriter(text, list(records[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(records)
    return text.getvalue()


def as_tsv(records: list[dict[str, str]]) -> str:
    return "".join("\t".join(row) + "\n" for row in [records[0].keys(), *(each.values() for each in records)])


CLASSES = ["good", "bad", "so, so"]
QUOTED_LINE_BREAK = re.compile(r"(?:^|\t)(['\"])(?:(?!\1).)*\n(?:(?!\1)[\s\S])*\1[\t\n]", re.MULTILINE)
"""What is a line break in a cell, or the end of a row between two cells with a quote."""
WRITERS = {"csv": as_csv, "tsv": as_tsv, "json": json.dumps, "jsonl": lambda records: json_lines(*records)}


@pytest.mark.parametrize("format", WRITERS)
@given(
    gold=st.lists(st.tuples(SENTENCES, SENTENCES, st.sampled_from(CLASSES)), min_size=1, max_size=4),
    # AllenNLP takes the text "None" in a config for null.
    names=st.lists(WORDS.filter(lambda word: word != "None"), min_size=3, max_size=3, unique=True),
)
def test_records(tmp_path, format, gold, names):
    records = [
        dict(zip(names, (" ".join(first), " ".join(second), label), strict=True))
        for first, second, label in gold
    ]
    file = tmp_path / "x"
    file.write_text(text := WRITERS[format](records))
    assume(format != "tsv" or not QUOTED_LINE_BREAK.search(text))
    columns = dict(zip(("sentence1", "sentence2", "label"), names, strict=True))
    tokenizer = {"type": "whitespace"}
    instances = reading(
        file, type="elmo_classifier", format=format, classes=CLASSES, tokenizer=tokenizer, **columns
    )
    for fields, (first, second, label) in zip(instances, gold, strict=True):
        read = fields["metadata"].metadata
        assert (read.sentence1, read.sentence2, fields["label"].label) == (first, second, label)
