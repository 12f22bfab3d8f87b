import itertools
import random

import pytest
from allennlp.training.metrics import Metric

from elmo_tasks.coref.metric import CorefScores

MEASURES = ("muc", "b_cubed", "ceaf_e", "mention")


def evaluate(*documents):
    metric = CorefScores()
    for document in documents:
        metric(*document)
    return metric.get_metric()


def table(metrics):
    """Precision, recall and F1 of each measure."""
    return {
        measure: tuple(metrics[f"{measure}_{name}"] for name in ("precision", "recall", "f1"))
        for measure in MEASURES
    }


def test_the_example_of_the_scorers_paper():
    """Pradhan et al. 2014, figure 1 and section 4; it prints .40 .40, .50 .42 and .43 .65."""
    key, response = ["abc", "defg"], ["ab", "cd", "fghi"]
    metrics = evaluate((response, key))
    expected = {
        "muc": (2 / 5, 2 / 5),
        "b_cubed": (4 / 8, 35 / 12 / 7),
        "ceaf_e": (1.3 / 3, 1.3 / 2),
        # c, d and a, b, f, g are found, e is not; h and i are no mentions
        "mention": (6 / 8, 6 / 7),
    }
    for measure, scores in expected.items():
        assert table(metrics)[measure][:2] == pytest.approx(scores)
    assert metrics["average_f1"] == pytest.approx(sum(metrics[f"{m}_f1"] for m in MEASURES[:3]) / 3)


def test_documents_are_summed_before_they_are_divided():
    first, second = (["ab"], ["abc"]), (["de"], ["de", "fg"])
    assert table(evaluate(first, second))["muc"][:2] == (2 / 2, 2 / 4)
    assert table(evaluate(first, second))["ceaf_e"][:2] == pytest.approx(((0.8 + 1) / 2, (0.8 + 1) / 3))
    # A mention of one document is none of another
    assert evaluate((["ab"], []), ([], ["ab"]))["mention_recall"] == 0


def test_recall_of_possible_mentions():
    metric = Metric.by_name("elmo_coref_scores")()
    metric([], ["ab", "c"], spans="bcxyz")
    assert metric.get_metric()["span_recall"] == 2 / 3
    assert metric.get_metric()["mention_recall"] == 0


# The definitions once more, mention by mention and alignment by alignment.


def of(mention, clusters):
    return next((set(cluster) for cluster in clusters if mention in cluster), set())


def reference_muc(one, other):
    """Recall of `other` for the key `one`: links less the cuts."""
    right = sum(
        len(cluster) - len({frozenset(of(m, other)) or frozenset([m]) for m in cluster}) for cluster in one
    )
    return right, sum(len(cluster) - 1 for cluster in one)


def reference_b_cubed(one, other):
    mentions = [mention for cluster in one for mention in cluster]
    return sum(len(of(m, one) & of(m, other)) / len(of(m, one)) for m in mentions), len(mentions)


def reference_ceaf(one, other):
    few, many = sorted((one, other), key=len)
    best = max(
        sum(2 * len(set(a) & set(b)) / (len(a) + len(b)) for a, b in zip(few, chosen, strict=True))
        for chosen in itertools.permutations(many, len(few))
    )
    return best, len(one)


def random_clusters(generator):
    mentions = generator.sample("abcdefghij", generator.randint(0, 10))
    clusters = [[] for _ in range(4)]
    for mention in mentions:
        generator.choice(clusters).append(mention)
    return list(filter(None, clusters))


def test_equals_the_definitions_on_random_documents():
    generator = random.Random(3)
    for _ in range(300):
        documents = [(random_clusters(generator), random_clusters(generator)) for _ in range(2)]
        found = table(evaluate(*documents))
        for measure, reference in (
            ("muc", reference_muc),
            ("b_cubed", reference_b_cubed),
            ("ceaf_e", reference_ceaf),
        ):
            for score, sides in zip(found[measure], ((0, 1), (1, 0)), strict=False):
                parts = [reference(document[sides[0]], document[sides[1]]) for document in documents]
                right, all_ = map(sum, zip(*parts, strict=True))
                assert score == pytest.approx(right / all_ if all_ else 0), (measure, documents)
            precision, recall, f1 = found[measure]
            assert f1 * (precision + recall) == pytest.approx(2 * precision * recall)
