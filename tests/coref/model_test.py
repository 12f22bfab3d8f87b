import itertools

import pytest
import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.coref import model as module
from elmo_tasks.coref.antecedents import clusters_from_links
from elmo_tasks.coref.documents import CorefDocument
from elmo_tasks.modules.ensemble import EnsembleModel
from tests.coref.tiny import Tiny

ORDERS = [
    {},
    {"max_antecedents": 1},
    {"inference_order": 2},
    {"coarse_to_fine": True},
    {"coarse_to_fine": True, "inference_order": 2, "max_antecedents": 3},
]
"""Lee et al. 2017 and 2018, and what is between them."""
OF_2018 = ORDERS[-1]


LONG = ["the", "ferry", "was", "late", "and", "the", "old", "captain", "said", "that", "it", "was", "fog"]


@pytest.fixture(scope="module")
def tiny():
    return Tiny()


# The paper's formulas for one span and one pair after the other, each with its whole input vector.


def ffnn(first, rest, vector):
    return rest(first(vector)).squeeze()


def bucket(distance):
    """[1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64+]"""
    return distance if distance < 5 else 5 + sum(distance >= bound for bound in (8, 16, 32, 64))


def reference_spans(mentions, words, context, sentences):
    """All spans: first and last word, g, mention score."""
    found = []
    for start, end in itertools.pairwise([0, *itertools.accumulate(sentences)]):
        for i, j in itertools.product(range(start, end), repeat=2):
            if i <= j < i + mentions.max_width:
                attention = mentions.attention(context[i : j + 1]).squeeze(1).softmax(0)
                head = attention @ words[i : j + 1]
                g = torch.cat([context[i], context[j], head, mentions.width.weight[j - i]])
                found.append(((i, j), g, ffnn(mentions.projection, mentions.scorer, g)))
    return found


def crosses(one, other):
    (i, j), (k, n) = sorted((one, other))
    return i < k <= j < n


def reference_scores(model, words, context, sentences, speakers, genre):
    """The spans that are kept, and for each a dictionary: antecedent, None for none, to score."""
    kept = []
    for span in sorted(reference_spans(model.mentions, words, context, sentences), key=lambda s: -s[2]):
        if len(kept) < int(0.4 * len(words)) and not any(crosses(span[0], other[0]) for other in kept):
            kept.append(span)
    kept.sort(key=lambda span: span[0])
    scorer = model.antecedents
    of_pairs = scorer.pairs
    g, mention = [span[1] for span in kept], [span[2] for span in kept]

    def coarse(i, j):
        both = mention[i] + mention[j]
        return both if scorer.coarse is None else both + scorer.coarse(kept[i][1]) @ kept[j][1]

    def fine(i, j):
        one, other = (int(speakers[kept[place][0][0]]) for place in (i, j))
        relation = 0 if 0 in (one, other) else 2 if one == other else 1
        features = [
            of_pairs.distance.weight[bucket(i - j)],
            of_pairs.speakers.weight[relation],
            of_pairs.genre.weight[genre],
        ]
        pair = torch.cat([g[i], g[j], g[i] * g[j], *features])
        return ffnn(of_pairs.projection, of_pairs.scorer, pair)

    antecedents = []
    for i in range(len(kept)):
        order = range(i - 1, -1, -1)
        if scorer.coarse is not None:
            order = sorted(order, key=lambda j: -coarse(i, j))
        antecedents.append(list(order)[: scorer.max_antecedents])
    zero = torch.zeros(())
    scores: list = []
    for number in range(scorer.inference_order):
        if number:
            expected = []
            for i, scored in enumerate(scores):
                weights = torch.stack(list(scored.values())).softmax(0)
                expected.append(
                    sum(w * g[i if j is None else j] for w, j in zip(weights, scored, strict=True))
                )
            gates = [scorer.gate(torch.cat(pair)).sigmoid() for pair in zip(g, expected, strict=True)]
            g = [f * one + (1 - f) * other for f, one, other in zip(gates, g, expected, strict=True)]
        scores = [
            {None: zero, **{j: coarse(i, j) + fine(i, j) for j in found}}
            for i, found in enumerate(antecedents)
        ]
    return [span[0] for span in kept], scores


@pytest.mark.parametrize("options", ORDERS)
@pytest.mark.parametrize("number", [2, 7])
def test_scores_are_those_of_the_papers(options, number, monkeypatch):
    """By plain formulas from the context vectors on; in few spans at once, so that there are borders."""
    monkeypatch.setattr("elmo_tasks.coref.antecedents.SPANS_AT_ONCE", 7)
    monkeypatch.setattr("elmo_tasks.coref.antecedents.ROWS_AT_ONCE", 5)
    monkeypatch.setattr("elmo_tasks.coref.mentions.SPANS_AT_ONCE", 11)
    tiny = Tiny(**options)
    for parameter in tiny.model.parameters():
        parameter.data.mul_(2.0)
    instance = tiny.instances[number]
    encoded = []
    encode = tiny.model._encode
    monkeypatch.setattr(tiny.model, "_encode", lambda *given: encoded.append(encode(*given)) or encoded[0])
    found = tiny.scores(instance)
    document = instance["metadata"].metadata
    batch = tiny.batch(instance)
    spans, scores = reference_scores(
        tiny.model, *encoded[0], map(len, document.sentences), batch["speakers"][0], int(batch["genre"])
    )
    assert found["spans"].tolist() == [list(span) for span in spans]
    assert found["window"].tolist() == [0, len(document)]
    for row, antecedents, expected in zip(
        found["antecedent_scores"], found["antecedents"].tolist(), scores, strict=True
    ):
        of = {
            None if j < 0 else j: score
            for j, score in zip([-1, *antecedents], row, strict=True)
            if score > -torch.inf
        }
        assert of.keys() == expected.keys()
        for j, score in expected.items():
            torch.testing.assert_close(of[j], score, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("options", [{}, OF_2018])
def test_loss_is_the_marginal_likelihood_of_gold_antecedents(options):
    # So many that there are gold mentions among the spans
    tiny = Tiny(**options | {"spans_per_word": 2.0, "max_antecedents": 30})
    instance = tiny.instances[0]
    scores = tiny.scores(instance)
    entity = {
        mention: number
        for number, cluster in enumerate(instance["metadata"].metadata.clusters)
        for mention in cluster
    }
    entities = [entity.get((i, j)) for i, j in scores["spans"].tolist()]
    loss, linked_spans = 0.0, 0
    for i, row in enumerate(scores["antecedent_scores"]):
        right = [
            place
            for place, j in enumerate(scores["antecedents"][i].tolist(), start=1)
            if j >= 0 and entities[i] is not None and entities[i] == entities[j]
        ]
        linked_spans += bool(right)
        loss -= row.softmax(0)[right or [0]].sum().log()
    assert linked_spans > 1
    torch.testing.assert_close(tiny.model(**tiny.batch(instance))["loss"], loss)


@pytest.mark.parametrize("options", ORDERS)
def test_every_parameter_learns(options):
    tiny = Tiny(**options)
    tiny.model.train()(**tiny.batch(tiny.instances[6]))["loss"].backward()
    without = {name for name, parameter in tiny.model.named_parameters() if parameter.grad is None}
    assert not without
    assert all(parameter.grad.isfinite().all() for parameter in tiny.model.parameters())


def test_learns_the_chains_of_a_document():
    tiny = Tiny(
        feedforward_sizes=[50, 50],
        hidden_sizes=[40],
        feature_dim=20,
        max_span_width=5,
        max_antecedents=50,
        spans_per_word=1.0,
        **{"text_field_embedder.token_embedders.tokens.embedding_dim": 30},
    )
    batch = tiny.batch(tiny.instances[0])
    optimizer = torch.optim.Adam(tiny.model.parameters(), 0.01)
    tiny.model.train()
    losses = []
    for _ in range(100):
        optimizer.zero_grad()
        losses.append(tiny.model(**batch)["loss"])
        losses[-1].backward()
        optimizer.step()
    assert losses[-1] < 0.05 * losses[0]
    tiny.model.get_metrics(reset=True)
    tiny.model.eval()(**batch)
    metrics = tiny.model.get_metrics(reset=True)
    assert metrics["muc_precision"] > 0.9
    assert metrics["muc_recall"] > 0.5


@pytest.mark.parametrize("at_once", [1, 20, 10_000])
def test_sentences_are_encoded_one_by_one(tiny, at_once, monkeypatch):
    monkeypatch.setattr(module, "WORDS_AT_ONCE", at_once)
    document = CorefDocument.of(
        [
            ["a"],
            LONG,
            ["it", "rained"],
            ["b"] * 5,
        ]
    )
    lengths = torch.tensor([len(sentence) for sentence in document.sentences])
    tokens = tiny.batch(tiny.instance(document))["tokens"]
    words, context = tiny.model._encode(tokens, lengths, torch.arange(4))
    alone = [CorefDocument.of([sentence]) for sentence in document.sentences]
    parts = [
        tiny.model._encode(
            tiny.batch(tiny.instance(one))["tokens"], torch.tensor([len(one)]), torch.arange(1)
        )
        for one in alone
    ]
    for found, expected in zip((words, context), zip(*parts, strict=True), strict=True):
        torch.testing.assert_close(found, torch.cat(expected))


def test_parts_have_sentences_of_like_length():
    lengths = torch.tensor([3, 50, 1, 26, 7, 24, 6, 2, 40])
    parts = [part.tolist() for part in module._of_like_length(torch.arange(9), lengths)]
    assert parts == [[1, 8, 3], [5], [4, 6], [0, 7], [2]]


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
        inside = [m for cluster in document.clusters for m in cluster if first <= m[0] and m[1] < end]
        kept = {tuple(span) for span in scores["spans"].tolist()}
        recall = tiny.model.get_metrics(reset=True)["span_recall"]
        assert recall == pytest.approx(sum(m in kept for m in inside) / len(inside) if inside else 0)
        assert outputs["loss"].isfinite()
    assert windows == {(i, i + 2) for i in range(len(document.sentences) - 1)}
    tiny.model.eval()
    assert tiny.scores(instance)["window"].tolist() == [0, len(document)]


@pytest.mark.parametrize("words", [["One"], ["Two", "words"], ["Three", "more", "words"]])
@pytest.mark.parametrize("options", [{}, OF_2018])
def test_shortest_documents(options, words):
    tiny = Tiny(**options)
    document = CorefDocument.of([words], clusters=[[[0, 0]]])
    outputs = tiny.model(**tiny.batch(tiny.instance(document)))
    assert outputs["clusters"] == [[]]
    outputs["loss"].backward()


def test_one_document_a_batch(tiny):
    with pytest.raises(ConfigurationError, match="found 2 documents in a batch, expected batch_size 1"):
        tiny.model(**tiny.batch(*tiny.instances[:2]))


@pytest.mark.parametrize(
    ("placement", "added"),
    [("none", (0, 0)), ("input", (64, 0)), ("output", (0, 64)), ("input+output", (64, 64))],
)
def test_placement_by_one_word(placement, added):
    tiny = Tiny("coref_elmo", **{"elmo.placement": placement})
    assert tiny.model.encoder.forward_layers[0].input_size == 7 + 6 + added[0]
    assert tiny.model.mentions.output_dim == 2 * (10 + added[1]) + 13 + 3
    outputs = tiny.model(**tiny.batch(tiny.instances[0]))
    outputs["loss"].backward()
    learned = [parameter for parameter in tiny.model.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None for parameter in learned)


def test_links_make_clusters():
    spans = [(place, place) for place in range(7)]
    assert clusters_from_links(spans, [-1, -1, 0, 1, 2, -1, 4]) == [
        [(0, 0), (2, 2), (4, 4), (6, 6)],
        [(1, 1), (3, 3)],
    ]
    assert clusters_from_links(spans, [-1] * 7) == []


def scores_of(spans, *rows):
    """Scores with the probabilities of each span: of no antecedent, and of others by their places."""
    most = max(1, *(len(row) - 1 for row in rows))
    antecedents = torch.full((len(rows), most), -1)
    scores = torch.full((len(rows), 1 + most), -torch.inf)
    for number, (none, *others) in enumerate(rows):
        scores[number, 0] = torch.tensor(none).log()
        for place, (antecedent, probability) in enumerate(others):
            antecedents[number, place] = antecedent
            scores[number, 1 + place] = torch.tensor(probability).log()
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
        | {spans[j]: p.item() for j, p in zip(places, row[1:], strict=True) if j >= 0}
        for span, places, row in zip(spans, scores["antecedents"].tolist(), probabilities, strict=True)
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


def test_mean_of_one_member_twice_is_the_member(tiny):
    instance = tiny.instances[3]
    scores = tiny.scores(instance)
    mean = tiny.model.average([scores, scores])
    one, twice = distributions(scores), distributions(mean)
    assert one.keys() == twice.keys()
    for span, probabilities in one.items():
        assert twice[span] == pytest.approx(probabilities, abs=1e-6)
    outputs = [tiny.model.decode(given, [instance["metadata"].metadata]) for given in (scores, mean)]
    assert outputs[0]["clusters"] == outputs[1]["clusters"]
    torch.testing.assert_close(outputs[0]["loss"], outputs[1]["loss"])


def test_an_ensemble_decodes_from_the_mean(tiny):
    members = [tiny.model, Tiny(hidden_sizes=[4]).model]
    ensemble = EnsembleModel(vocab=tiny.vocab, members=members).eval()
    batch = tiny.batch(tiny.instances[3])
    fields = {name: field for name, field in batch.items() if name != "metadata"}
    with torch.no_grad():
        found = ensemble(**batch)
        expected = members[0].decode(
            module.CorefModel.average([member.scores(**fields) for member in members]), batch["metadata"]
        )
    assert found["clusters"] == expected["clusters"]
    torch.testing.assert_close(found["loss"], expected["loss"])
