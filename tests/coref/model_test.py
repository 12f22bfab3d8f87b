import itertools
from dataclasses import replace

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.training.util import evaluate

from elmo_tasks.coref import model as module
from elmo_tasks.coref import spans as span_module
from elmo_tasks.coref.documents import CorefDocument
from elmo_tasks.coref.spans import attended_spans, candidate_spans, reference_probabilities
from tests.coref.reference import assert_scores, reference_mentions, reference_scores
from tests.coref.tiny import Tiny

OF_2018 = {"coarse_to_fine": True, "inference_order": 2, "max_antecedents": 3}
"""The inference of Lee et al. 2018, in place of 2017."""


@pytest.fixture(scope="module")
def tiny():
    return Tiny()


@pytest.mark.parametrize(
    "options",
    [
        {},
        OF_2018,
        {"max_antecedents": 1, "max_span_width": 1},
        {"max_antecedents": 100, "max_span_width": 30, "spans_per_word": 2.0},
        {"inference_order": 3},
        {"coarse_to_fine": True},
    ],
)
def test_scores_are_those_of_the_papers(options, monkeypatch):
    """By plain formulas from the context vectors on; in few spans at once, so that there are borders."""
    monkeypatch.setattr(span_module, "SCORED_SPANS", 11)
    monkeypatch.setattr(span_module, "SPANS_OF_A_BLOCK", 7)
    monkeypatch.setattr(span_module, "COARSE_ROWS", 5)
    tiny = Tiny(**options)
    for parameter in tiny.model.parameters():
        parameter.data.mul_(2.0)
    instance = tiny.instances[7]
    encoded = []
    encode = tiny.model.encode
    monkeypatch.setattr(tiny.model, "encode", lambda *given: encoded.append(encode(*given)) or encoded[0])
    found = tiny.scores(instance)
    document = instance["metadata"].metadata
    batch = tiny.batch(instance)
    kept = reference_mentions(tiny.model.mentions, *encoded[0], map(len, document.sentences))
    bounds, vectors, mention = zip(*kept, strict=True)
    assert found["spans"].tolist() == list(map(list, bounds))
    assert found["window"].tolist() == [0, len(document)]
    speakers = [batch["speakers"][0, first] for first, _ in bounds]
    expected = reference_scores(tiny.model.antecedents, vectors, mention, speakers, int(batch["genre"]))
    assert_scores(found["antecedents"], found["antecedent_scores"], expected)


def test_attention_is_a_softmax_over_the_tokens_of_a_span():
    torch.manual_seed(0)
    vectors = torch.randn(9, 5, dtype=torch.double, requires_grad=True)
    # Far apart, so that only a softmax of each span by itself is finite
    scores = (100 * torch.randn(9, dtype=torch.double)).requires_grad_()
    candidates = candidate_spans(torch.tensor([5, 4]), 4)
    found = attended_spans(vectors, scores, candidates, 4)
    parts = (slice(first, last + 1) for first, last in candidates.tolist())
    expected = torch.stack([scores[part].softmax(0) @ vectors[part] for part in parts])
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(found)
    gradients = (torch.autograd.grad((out * weights).sum(), (vectors, scores)) for out in (found, expected))
    torch.testing.assert_close(*gradients)


@pytest.mark.parametrize("options", [{}, OF_2018])
def test_loss_is_the_marginal_likelihood_of_gold_antecedents(options):
    # So many that there are gold mentions among the spans
    tiny = Tiny(**options | {"spans_per_word": 2.0, "max_antecedents": 30})
    instance = tiny.instances[0]
    scores = tiny.scores(instance)
    entity = {
        mention: i for i, cluster in enumerate(instance["metadata"].metadata.clusters) for mention in cluster
    }
    entities = [entity.get((i, j)) for i, j in scores["spans"].tolist()]
    loss, linked_spans = 0.0, 0
    for i, row in enumerate(scores["antecedent_scores"]):
        right = [
            column
            for column, j in enumerate(scores["antecedents"][i].tolist(), start=1)
            if j >= 0 and entities[i] is not None and entities[i] == entities[j]
        ]
        linked_spans += bool(right)
        loss -= row.softmax(0)[right or [0]].sum().log()
    assert linked_spans > 1
    torch.testing.assert_close(tiny.model(**tiny.batch(instance))["loss"], loss)


@pytest.mark.parametrize(("bonus", "linked"), [(1e6, True), (-1e6, False)])
def test_the_bonus_chooses_links_and_leaves_the_loss(bonus, linked):
    plain, changed = Tiny(), Tiny(antecedent_bonus=bonus)
    instance = plain.instances[0]
    found = changed.model(**changed.batch(instance))
    spans = [tuple(span) for span in changed.scores(instance)["spans"].tolist()]
    assert found["clusters"] == [[sorted(spans)] if linked else []]
    torch.testing.assert_close(found["loss"], plain.model(**plain.batch(instance))["loss"])


@pytest.mark.parametrize("options", [{}, {"max_antecedents": 1}, OF_2018])
def test_every_parameter_learns(options):
    tiny = Tiny(**options)
    tiny.model.train()(**tiny.batch(tiny.instances[6]))["loss"].backward()
    assert not [name for name, parameter in tiny.model.named_parameters() if parameter.grad is None]
    assert all(parameter.grad.isfinite().all() for parameter in tiny.model.parameters())


@pytest.mark.parametrize("at_once", [1, 20, 10_000])
def test_sentences_are_encoded_one_by_one(tiny, at_once, monkeypatch):
    monkeypatch.setattr(module, "ENCODED_WORDS", at_once)
    sentences = [
        ["a"],
        ["the", "ferry", "was", "late", "and", "the", "old", "captain", "said", "that", "it", "was", "fog"],
        ["it", "rained"],
        ["b"] * 5,
    ]

    def encode(*sentences):
        lengths = torch.tensor(list(map(len, sentences)))
        tokens = tiny.batch(tiny.instance(CorefDocument.of(list(sentences))))["tokens"]
        return tiny.model.encode(tokens, lengths, torch.arange(len(sentences)))

    alone = [encode(sentence) for sentence in sentences]
    for found, expected in zip(encode(*sentences), zip(*alone, strict=True), strict=True):
        torch.testing.assert_close(found, torch.cat(expected))


def test_training_reads_a_window(monkeypatch):
    tiny = Tiny(max_training_sentences=2)
    instance = tiny.instances[0]
    document = instance["metadata"].metadata
    starts = [0, *itertools.accumulate(map(len, document.sentences))]
    windows = set()
    for seed in range(30):
        torch.manual_seed(seed)
        scores = tiny.model.train() and tiny.scores(instance)
        first, end = scores["window"].tolist()
        windows.add((starts.index(first), starts.index(end)))
        assert first <= scores["spans"].min()
        assert scores["spans"].max() < end
        # Only gold mentions within the window count
        tiny.model.get_metrics(reset=True)
        outputs = tiny.model.decode(scores, [document])
        parts = [[m for m in cluster if first <= m[0] and m[1] < end] for cluster in document.clusters]
        inside = [m for part in parts if len(part) > 1 or part in document.clusters for m in part]
        kept = {tuple(span) for span in scores["spans"].tolist()}
        recall = tiny.model.get_metrics(reset=True)["span_recall"]
        assert recall == pytest.approx(sum(m in kept for m in inside) / len(inside) if inside else 0)
        assert outputs["loss"].isfinite()
    assert windows == {(i, i + 2) for i in range(len(document.sentences) - 1)}
    tiny.model.eval()
    assert tiny.scores(instance)["window"].tolist() == [0, len(document)]


@pytest.mark.parametrize(("singletons", "mentions"), [([], 2), ([[(1, 1)]], 3)])
def test_a_window_makes_no_singletons(tiny, singletons, mentions):
    """The second cluster has one mention in the first sentence, which is nothing to find there."""
    clusters = [[(0, 0), (2, 2), (4, 4)], [(3, 3), (6, 6)], *singletons]
    document = CorefDocument.of([["Ana", "lost", "her", "keys"], ["She", "found", "them"]], clusters=clusters)
    right = {
        "window": torch.tensor([0, 4]),
        "spans": torch.tensor([[0, 0], [2, 2]]),
        "antecedents": torch.tensor([[-1], [0]]),
        "antecedent_scores": torch.tensor([[0.0, -torch.inf], [0.0, 9.0]]),
    }
    assert tiny.model.decode(right, [document])["clusters"] == [[[(0, 0), (2, 2)]]]
    metrics = tiny.model.get_metrics(reset=True)
    assert metrics["mention_precision"] == 1.0
    assert metrics["mention_recall"] == metrics["b_cubed_recall"] == 2 / mentions


def test_training_needs_gold_clusters(tiny):
    instance = tiny.instances[0]
    document = replace(instance["metadata"].metadata, clusters=None)
    scores = tiny.scores(instance)
    assert "loss" not in tiny.model.decode(scores, [document])
    with pytest.raises(ConfigurationError, match=document.id):
        tiny.model.train().decode(scores, [document])
    tiny.model.eval()


def test_an_evaluation_needs_gold_clusters(tiny, tmp_path):
    (tmp_path / "a.jsonl").write_text('{"sentences": [["Ana", "ran", "."]]}\n' * 2)
    loader = MultiProcessDataLoader(tiny.reader, str(tmp_path / "a.jsonl"), batch_size=1)
    loader.index_with(tiny.vocab)
    with pytest.raises(ConfigurationError, match='no "clusters"'):
        evaluate(tiny.model, loader)


def test_predictions_before_an_evaluation_count_for_nothing(tiny):
    instance = tiny.instances[0]
    document = replace(instance["metadata"].metadata, clusters=None)
    tiny.model.forward_on_instance(tiny.instance(document))
    tiny.model.forward_on_instance(instance)
    assert tiny.model.get_metrics(reset=True)["span_recall"] > 0.0
    # Nor in training, where an epoch's metrics are asked for while the model is trained.
    tiny.model.forward_on_instance(tiny.instance(document))
    assert tiny.model.train().get_metrics(reset=True)["span_recall"] == 0.0
    tiny.model.eval()


@pytest.mark.parametrize("words", [["One"], ["Two", "words"], ["Three", "more", "words"]])
@pytest.mark.parametrize("options", [{}, OF_2018])
def test_shortest_documents(options, words):
    tiny = Tiny(**options)
    document = CorefDocument.of([words], clusters=[[[0, 0]]])
    outputs = tiny.model(**tiny.batch(tiny.instance(document)))
    assert outputs["clusters"] == [[]]
    outputs["loss"].backward()


def test_one_document_a_batch(tiny):
    with pytest.raises(ConfigurationError, match="batch_size"):
        tiny.model(**tiny.batch(*tiny.instances[:2]))


def scores_of(spans, *rows):
    """Scores with the probabilities of each span: of no antecedent, and of others by their columns."""
    most = max(1, *(len(row) - 1 for row in rows))
    antecedents = torch.full((len(rows), most), -1)
    scores = torch.full((len(rows), 1 + most), -torch.inf)
    for i, (none, *others) in enumerate(rows):
        scores[i, 0] = torch.tensor(none).log()
        for column, (antecedent, probability) in enumerate(others):
            antecedents[i, column] = antecedent
            scores[i, 1 + column] = torch.tensor(probability).log()
    return {
        "window": torch.tensor([0, 9]),
        "spans": torch.tensor(spans),
        "antecedents": antecedents,
        "antecedent_scores": scores,
    }


def distributions(scores):
    spans = [tuple(span) for span in scores["spans"].tolist()]
    probabilities = scores["antecedent_scores"].softmax(1)
    return {
        span: {None: row[0].item()}
        | {spans[j]: p.item() for j, p in zip(indices, row[1:], strict=True) if j >= 0}
        for span, indices, row in zip(spans, scores["antecedents"].tolist(), probabilities, strict=True)
    }


def test_mean_of_members_that_kept_other_spans():
    a, b, c, d = (0, 0), (1, 2), (1, 4), (6, 6)
    one = scores_of([a, b, d], [1.0], [0.6, (0, 0.4)], [0.2, (1, 0.5), (0, 0.3)])
    other = scores_of([b, c, d], [1.0], [0.5, (0, 0.5)], [0.3, (1, 0.7)])
    mean = module.CorefModel.average([one, other])
    expected = {
        a: {None: 1.0},
        b: {None: 0.8, a: 0.2},
        c: {None: 0.75, b: 0.25},
        d: {None: 0.25, a: 0.15, b: 0.25, c: 0.35},
    }
    found = distributions(mean)
    assert found.keys() == expected.keys()
    for span, probabilities in expected.items():
        assert found[span] == pytest.approx(probabilities)
    assert mean["window"].tolist() == [0, 9]


def test_a_link_to_a_pronoun_is_followed_to_a_name():
    # A name, a pronoun that is it, and a pronoun that is the other pronoun or a second name
    antecedents = torch.tensor([[-1, -1], [0, -1], [-1, -1], [1, 2]])
    probabilities = torch.tensor([[1, 0, 0], [0.2, 0.8, 0], [1, 0, 0], [0.1, 0.5, 0.4]])
    expected = torch.tensor([[0.8, 0, 0, 0], [0.4, 0, 0.4, 0]])
    torch.testing.assert_close(reference_probabilities(antecedents, probabilities, [1, 3]), expected)
