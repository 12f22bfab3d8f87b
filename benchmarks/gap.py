"""
The pronouns of GAP (Webster et al. 2018, arXiv:1810.05201): for each of two names of a passage, whether a
pronoun means it. F1 of all decisions, of masculine and of feminine pronouns.

A model says yes if the pronoun's cluster has a mention that holds the name, and not the other one, or that is
a part of it. FILE has a passage a line, as JSON: `text`, the character spans `pronoun`, `a` and `b`, and
`a_coref` and `b_coref`.
"""

import argparse
import json

from sklearn.metrics import f1_score

from benchmarks.results import Results, add_results_argument, show
from elmo_tasks import load
from elmo_tasks.data.input_files import read_lines
from elmo_tasks.pipeline.results import Mention

MASCULINE, FEMININE = {"he", "him", "his"}, {"she", "her", "hers"}
Span = tuple[int, int]


def means(clusters: list[list[Mention]], pronoun: Span, name: Span, other: Span) -> bool:
    for cluster in clusters:
        spans = [(mention.start, mention.end) for mention in cluster]
        if pronoun in spans:
            return any(
                _holds(name, span) or (_holds(span, name) and not _holds(span, other)) for span in spans
            )
    return False


def _holds(span: Span, part: Span) -> bool:
    return span[0] <= part[0] and part[1] <= span[1]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", help="such as gap_dev.jsonl.gz")
    parser.add_argument("--model", default="coref", help="an archive, or the name of one")
    add_results_argument(parser)


def run(arguments: argparse.Namespace) -> None:
    results = Results("gap", arguments.csv)
    records = [json.loads(line) for _, line in read_lines(arguments.file)]
    found = load(arguments.model).predict_batch([record["text"] for record in records])
    decisions: list[tuple[str, bool, bool]] = []
    for record, clusters in zip(records, found, strict=True):
        pronoun, a, b = (tuple(record[key]) for key in ("pronoun", "a", "b"))
        word = record["text"][slice(*pronoun)].lower()
        decisions.append((word, record["a_coref"], means(clusters, pronoun, a, b)))
        decisions.append((word, record["b_coref"], means(clusters, pronoun, b, a)))
    for group, words in {"all": None, "masculine": MASCULINE, "feminine": FEMININE}.items():
        _, gold, predicted = zip(
            *(each for each in decisions if words is None or each[0] in words), strict=True
        )
        results.add(arguments.model, 0, group, 100 * float(f1_score(gold, predicted)))
    show(results.grid(results.metrics()))
