"""The formulas of Lee et al. 2017 and 2018, for one span and one pair after the other."""

import itertools

import torch


def ffnn(first, rest, vector):
    return rest(first(vector)).squeeze()


def bucket(distance):
    """[1, 2, 3, 4, 5-7, 8-15, 16-31, 32-63, 64+]"""
    return distance if distance < 5 else 5 + sum(distance >= bound for bound in (8, 16, 32, 64))


def crosses(one, other):
    (i, j), (k, n) = sorted((one, other))
    return i < k <= j < n


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


def reference_mentions(mentions, words, context, sentences):
    """Returns those of `reference_spans` that are kept, in the order of the text."""
    kept = []
    for span in sorted(reference_spans(mentions, words, context, sentences), key=lambda s: -s[2]):
        enough = len(kept) == max(1, int(mentions.spans_per_word * len(words)))
        if not enough and not any(crosses(span[0], other[0]) for other in kept):
            kept.append(span)
    return sorted(kept, key=lambda span: span[0])


def reference_scores(scorer, g, mention, speakers, genre):
    """For each span a dictionary: antecedent, None for none, to score."""
    of_pairs = scorer.pairs

    def coarse(i, j):
        both = mention[i] + mention[j]
        return both if scorer.coarse is None else both + scorer.coarse(coarse_g[i]) @ coarse_g[j]

    def fine(i, j):
        one, other = int(speakers[i]), int(speakers[j])
        relation = 0 if 0 in (one, other) else 2 if one == other else 1
        features = [
            of_pairs.distance.weight[bucket(i - j)],
            of_pairs.speakers.weight[relation],
            of_pairs.genre.weight[genre],
        ]
        pair = torch.cat([g[i], g[j], g[i] * g[j], *features])
        return ffnn(of_pairs.projection, of_pairs.scorer, pair)

    coarse_g = g
    antecedents = []
    for i in range(len(g)):
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
    return scores


def assert_scores(antecedents, scores, expected):
    """The tensors that an `AntecedentScorer` gives against those of `reference_scores`."""
    for row, indices, of_span in zip(scores, antecedents.tolist(), expected, strict=True):
        found = {
            None if j < 0 else j: score
            for j, score in zip([-1, *indices], row, strict=True)
            if score > -torch.inf
        }
        assert found.keys() == of_span.keys()
        for j, score in of_span.items():
            torch.testing.assert_close(found[j], score, rtol=1e-4, atol=1e-5)
