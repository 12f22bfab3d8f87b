import random
import shutil
import subprocess
from pathlib import Path

import allennlp_models
import pytest

from elmo_tasks.data.formats.roles import RoleArgument
from elmo_tasks.data.tag_schemes import Scheme, Span, TagError, from_spans, to_spans
from elmo_tasks.srl.metric import SrlEval, from_tags, to_tags

SCRIPT = Path(allennlp_models.__file__).parent / "structured_prediction" / "tools" / "srl-eval.pl"
with_script = pytest.mark.skipif(
    shutil.which("perl") is None or not SCRIPT.exists(), reason="needs perl and srl-eval.pl"
)


def props(rows, path):
    """The propositions as the script reads them, each in a sentence of its own."""
    blocks = []
    for tags in rows:
        starts, ends = ["*"] * len(tags), [""] * len(tags)
        for start, end, label in to_spans(tags, Scheme.IOB2):
            starts[start], ends[end - 1] = f"({label}*", ")"
        cells = [start + end for start, end in zip(starts, ends, strict=True)]
        blocks.append("".join(f"{'be' if i == 0 else '-'} {cell}\n" for i, cell in enumerate(cells)))
    path.write_text("\n".join(blocks))
    return path


def official(predicted, gold, folder):
    """Returns the counts and percentages that the script prints, by label."""
    files = [props(rows, folder / name) for name, rows in (("gold", gold), ("predicted", predicted))]
    output = subprocess.run(["perl", SCRIPT, *files], capture_output=True, text=True, check=True).stdout
    lines = [line.split() for line in output.splitlines()]
    table = {line[0]: list(map(float, line[1:])) for line in lines if len(line) == 7}
    (perfect,) = [float(line[-1]) for line in lines if line[:2] == ["Percentage", "of"]]
    return table, perfect


def evaluate(predicted, gold):
    metric = SrlEval()
    metric([row.split() for row in predicted], [row.split() for row in gold])
    return metric


def agrees(predicted, gold, folder):
    metric = SrlEval()
    metric(predicted, gold)
    counts, metrics = metric.total_counts(), metric.get_metric()
    table, perfect = official(predicted, gold, folder)
    overall = table.pop("Overall")
    assert set(table) == set(counts.labels())
    for label, (correct, excess, missed, *scores) in table.items():
        assert counts.correct[label] == correct, label
        assert counts.predicted[label] - correct == excess, label
        assert counts.gold[label] - correct == missed, label
        found = [100 * metrics[f"{name}-{label}"] for name in ("precision", "recall", "f1")]
        assert found == pytest.approx(scores, abs=0.0051), label
    found = [100 * metrics[name] for name in ("precision", "recall", "f1")]
    assert found == pytest.approx(overall[3:], abs=0.0051)
    assert 100 * metrics["perfect"] == pytest.approx(perfect, abs=0.0051)


CASES = [
    ("B-A0 B-V B-A1 I-A1 O", "B-A0 B-V B-A1 I-A1 O"),
    ("B-A0 B-V B-A1 O O", "B-A0 B-V B-A1 I-A1 O"),
    ("B-A1 B-V B-C-A1 O O", "B-A1 B-V B-C-A1 O O"),
    ("B-A1 B-V O O O", "B-A1 B-V B-C-A1 O O"),  # half of an argument is wrong
    ("B-A1 B-V B-A1 O O", "B-A1 B-V B-C-A1 O O"),
    ("B-A1 B-V B-C-A1 B-C-A1 O", "B-A1 B-V B-C-A1 O B-C-A1"),
    ("O B-V B-C-A1 O O", "O B-V B-A1 O O"),  # a continuation of nothing is an argument
    ("B-C-A1 B-A1 B-C-A1 O O", "B-A1 B-A1 B-C-A1 O O"),  # and of two, the last is continued
    ("B-A1 B-A0 B-A1 B-C-A0 B-C-A1", "B-A1 B-A0 B-A1 B-C-A0 B-C-A1"),
    ("B-A1 B-R-A1 B-V O O", "B-A1 B-R-A1 B-V B-C-V O"),
    ("B-R-A1 B-V B-C-R-A1 O O", "B-R-A1 B-V B-C-R-A1 O O"),
    ("B-V I-V O O O", "B-V O O O O"),  # perfect except for the predicate, which does not count
    ("O O O O O", "O O O O O"),
]


@with_script
def test_equals_the_script_on_hand_made_cases(tmp_path):
    predicted, gold = zip(*[(p.split(), g.split()) for p, g in CASES], strict=True)
    agrees(predicted, gold, tmp_path)
    for pair in zip(predicted, gold, strict=True):
        agrees(*[[row] for row in pair], tmp_path)


@with_script
def test_equals_the_script_on_random_changes(tmp_path):
    generator = random.Random(13)
    labels = ["A0", "A1", "AM-TMP", "R-A0", "C-A0", "C-A1", "C-AM-TMP", "C-R-A0", "V", "C-V"]

    def tags():
        """A few spans of up to three words."""
        spans, start = [], 0
        while start < 12:
            end = min(12, start + generator.randint(1, 3))
            if generator.random() < 0.6:
                spans.append(Span(start, end, generator.choice(labels)))
            start = end
        return spans

    def changed(spans):
        kept = [span for span in spans if generator.random() > 0.15]
        return [
            span._replace(label=generator.choice(labels)) if generator.random() < 0.15 else span
            for span in kept
        ]

    gold = [tags() for _ in range(800)]
    predicted = [changed(spans) for spans in gold]
    agrees(*([from_spans(spans, 12, Scheme.IOB2) for spans in rows] for rows in (predicted, gold)), tmp_path)


def test_a_worked_example():
    """Three arguments right of five predicted and four gold ones, apart from the predicates."""
    metrics = evaluate(
        ["B-A0 B-V B-A1 I-A1 B-AM-TMP", "B-A1 B-V O B-C-A1 B-A2"],
        ["B-A0 B-V B-A1 I-A1 O", "B-A1 B-V O B-C-A1 B-A0"],
    ).get_metric()
    expected = {
        "": (3 / 5, 3 / 4, 2 / 3),
        "_with_predicate": (5 / 7, 5 / 6, 10 / 13),
        "-A0": (1, 1 / 2, 2 / 3),
        "-A1": (1, 1, 1),
        "-A2": (0, 0, 0),
        "-AM-TMP": (0, 0, 0),
        "-V": (1, 1, 1),
    }
    for label, scores in expected.items():
        for name, score in zip(("precision", "recall", "f1"), scores, strict=True):
            assert metrics.pop(name + label) == pytest.approx(score)
    assert metrics == {"perfect": 0.0}


TAGGED = ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "B-C-V", "O"]
ARGUMENTS = [
    RoleArgument("ARG0", ((0, 1),)),
    RoleArgument("V", ((1, 2), (4, 5))),
    RoleArgument("ARG1", ((2, 4),)),
]


def test_arguments_of_tags_and_back():
    assert from_tags(TAGGED) == ARGUMENTS
    assert to_tags(reversed(ARGUMENTS), 6) == TAGGED
    with pytest.raises(TagError):
        from_tags(["I-X"])


@pytest.mark.parametrize(
    ("tags", "expected"),
    [
        ("B-C-X O B-C-X", [("X", ((0, 1), (2, 3)))]),
        ("B-X B-X B-C-X", [("X", ((0, 1),)), ("X", ((1, 2), (2, 3)))]),
        ("B-R-X B-C-X O", [("R-X", ((0, 1),)), ("X", ((1, 2),))]),
        ("O O", []),
    ],
)
def test_continuations(tags, expected):
    assert from_tags(tags.split()) == expected
