"""End-to-end coreference resolution (Lee et al. 2017), the baseline of the ELMo paper."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.nn.util import get_text_field_mask
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.batches import batch_sizes
from elmo_tasks.common.values import PositiveFloat, PositiveInt, Probability, Size, Sizes
from elmo_tasks.coref.documents import (
    Cluster,
    CorefDocument,
    TokenSpan,
    is_pronoun,
    mark_mentions,
    names_of_pronouns,
    replace_pronouns,
)
from elmo_tasks.coref.metric import CorefScores
from elmo_tasks.coref.reader import GENRES
from elmo_tasks.coref.spans import AntecedentScorer, MentionFinder, reference_probabilities
from elmo_tasks.elmo import ElmoRepresentations
from elmo_tasks.modules.elmo_model import ElmoModel, Outputs, Scores
from elmo_tasks.modules.layers import BiLstm
from elmo_tasks.pipeline.results import Clusters, Mention, TaskResult

ENCODED_WORDS = 4096
"""Words, and padding, of sentences that are encoded together."""
SURE = 0.9
"""
The least probability with which a pronoun is replaced by a name. On the dev documents of OntoGUM 97% of such
names are right; 73% from .5 on, and 36% of all.
"""


@dataclass
class CorefResult(TaskResult):
    """The clusters of a document."""

    document: CorefDocument
    clusters: list[Cluster]
    names: dict[int, tuple[TokenSpan, float]]
    """For pronouns, by their token: the most probable mention with a name, and its probability."""

    @property
    def value(self) -> Clusters:
        text, offsets = self.document.words.text, self.document.words.offsets
        bounds = (
            [(offsets[first][0], offsets[last][1]) for first, last in cluster] for cluster in self.clusters
        )
        return Clusters(
            [Mention(text[start:end], start, end) for start, end in cluster] for cluster in bounds
        )

    def to_json(self) -> JsonDict:
        """Returns also the text with marked mentions, and with those pronouns replaced that are `SURE`."""
        words = self.document.words
        sure = {token: name for token, (name, probability) in self.names.items() if probability >= SURE}
        return {
            "tokens": words.words,
            "clusters": [list(map(list, cluster)) for cluster in self.clusters],
            "mentions": [
                [{"text": text, "char_start": start, "char_end": end} for text, start, end in mentions]
                for mentions in self.value
            ],
            "marked": mark_mentions(words, self.clusters),
            "pronouns": [
                {"token": token, "name": list(name), "probability": probability, "replaced": token in sure}
                for token, (name, probability) in sorted(self.names.items())
            ],
            "resolved": replace_pronouns(self.document, sure),
        }


@Model.register("elmo_coref")
class CorefModel(ElmoModel):
    """
    Lee et al. 2017, arXiv:1707.07045: a biLSTM over each sentence by itself, vectors and scores of all spans,
    the best spans as possible mentions, and for each of them a distribution over earlier ones as its
    antecedent. It predicts no clusters of one mention.

    The biLSTM reads ELMo at the input; with `elmo_in_heads` the heads of spans use it, too.

    A batch is one document. Its sentences are encoded a few at a time, together with others of similar
    length.

    # Parameters

    hidden_sizes : units of each biLSTM layer, for each direction.
    feedforward_sizes : hidden layers of all FFNNs.
    feature_dim : size of the vectors of width, distance, speakers and genre.
    max_span_width, spans_per_word : see `MentionFinder`.
    max_training_sentences : sentences of the window that training draws from a document each time.
    lexical_dropout : probability, on word vectors.
    dropout : probability, on hidden vectors and features; after the biLSTM with one mask for all words of a
        sentence.
    elmo_in_heads : whether heads of spans use all that the biLSTM reads, as in section 4; otherwise they use
        the word vectors without ELMo, as in the code of Lee et al. 2018.
    max_antecedents, coarse_to_fine, inference_order : see `AntecedentScorer`.
    antecedent_bonus : added to the scores of all antecedents where links are chosen, but not in the loss;
        with more than 0 the model finds more mentions, of which fewer are right.
    The others : see `ElmoModel`.
    """

    default_predictor = "elmo_coref"
    metadata_class = CorefDocument
    main_metrics = ("average_f1", "span_recall")
    without_gold = 'the documents have no "clusters"'
    fixed_namespaces = (GENRES,)

    def __init__(
        self,
        *,
        hidden_sizes: Sizes,
        feedforward_sizes: Sizes,
        feature_dim: Size,
        max_span_width: Size,
        spans_per_word: PositiveFloat,
        max_antecedents: PositiveInt,
        max_training_sentences: PositiveInt,
        lexical_dropout: Probability,
        dropout: Probability,
        coarse_to_fine: bool = False,
        inference_order: PositiveInt = 1,
        antecedent_bonus: float = 0.0,
        elmo_in_heads: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.max_training_sentences = max_training_sentences
        self.antecedent_bonus = antecedent_bonus
        self.lexical_dropout = nn.Dropout(lexical_dropout)
        # Its input has the lexical dropout.
        self.encoder = BiLstm(
            input_dim=self.input_dim, hidden_sizes=hidden_sizes, dropout=dropout, input_dropout=0.0
        )
        self.word_dim = self.input_dim if elmo_in_heads else self.text_field_embedder.get_output_dim()
        """Size of the part of a word's vector that a span's head uses."""
        self.mentions = MentionFinder(
            word_dim=self.word_dim,
            context_dim=self.encoder.output_dim + self.elmo_output_dim,
            feature_dim=feature_dim,
            max_width=max_span_width,
            spans_per_word=spans_per_word,
            hidden_sizes=feedforward_sizes,
            dropout=dropout,
        )
        self.antecedents = AntecedentScorer(
            span_dim=self.mentions.output_dim,
            feature_dim=feature_dim,
            genres=self.vocab.get_vocab_size(GENRES),
            max_antecedents=max_antecedents,
            coarse_to_fine=coarse_to_fine,
            inference_order=inference_order,
            hidden_sizes=feedforward_sizes,
            dropout=dropout,
        )
        self.metric = CorefScores()
        self.initialize()

    def forward(
        self,
        tokens: TextFieldTensors,
        speakers: torch.Tensor,
        genre: torch.Tensor,
        metadata: list[CorefDocument],
    ) -> Outputs:
        """
        Links the mentions of one document. Returns its `clusters` in a list, `metadata`, and with gold
        clusters, which training needs, the `loss`: the negative marginal log-likelihood of the gold
        antecedents, summed over the spans.

        *Shape:* `tokens` `(1, sentences, words of the longest, ...)`, `speakers` `(1, words)`, `genre`
        `(1,)`.
        """
        return self.decode(self.scores(tokens, speakers, genre), metadata)

    def scores(self, tokens: TextFieldTensors, speakers: torch.Tensor, genre: torch.Tensor) -> Scores:
        """
        Returns `window` `(2,)`, the first word that is read and the end; `spans` `(spans, 2)`, first and last
        word of each possible mention; `antecedents` and `antecedent_scores`, see `AntecedentScorer`.
        """
        if len(genre) > 1:
            raise ConfigurationError(f"batch_size must be 1 document, not {len(genre)}")
        # (sentences,)
        lengths = get_text_field_mask(tokens, num_wrapping_dims=1)[0].sum(dim=1)
        rows = self.window(lengths)
        first = int(lengths[: rows[0]].sum())
        # (words of the window, input_dim), (words of the window, encoder dim)
        words, context = self.encode(tokens, lengths, rows)
        mentions = self.mentions(words, context, lengths[rows])
        spans = mentions.spans + first
        antecedents, scores = self.antecedents(mentions, speakers[0, spans[:, 0]], genre)
        return {
            "window": torch.tensor([first, first + len(words)], device=spans.device),
            "spans": spans,
            "antecedents": antecedents,
            "antecedent_scores": scores,
        }

    def decode(self, scores: Scores, metadata: list[CorefDocument]) -> Outputs:
        spans = [(first, last) for first, last in scores["spans"].tolist()]
        none, antecedents = scores["antecedent_scores"].split([1, scores["antecedents"].size(1)], dim=1)
        # (kept,): index among the spans, -1 for none
        best = torch.cat([none, antecedents + self.antecedent_bonus], dim=1).argmax(dim=1, keepdim=True)
        best = F.pad(scores["antecedents"], (1, 0), value=-1).gather(1, best).squeeze(1)
        clusters = clusters_from_links(spans, best.tolist())
        outputs: Outputs = {"clusters": [clusters], "scores": [scores], "metadata": metadata}
        self.lacks_gold = metadata[0].clusters is None
        if metadata[0].clusters is not None:
            gold = _within(metadata[0].clusters, *scores["window"].tolist())
            outputs["loss"] = self._loss(scores, spans, gold)
            self.metric(clusters, gold, spans)
        elif self.training:
            raise ConfigurationError(f'the document {metadata[0].id!r} has no "clusters" to train on')
        return outputs

    def results(self, outputs: Outputs) -> list[CorefResult]:
        documents = zip(outputs["metadata"], outputs["clusters"], outputs["scores"], strict=True)
        return [
            CorefResult(document, clusters, self._names(document, clusters, scores))
            for document, clusters, scores in documents
        ]

    def _names(
        self, document: CorefDocument, clusters: list[Cluster], scores: Scores
    ) -> dict[int, tuple[TokenSpan, float]]:
        spans = [(first, last) for first, last in scores["spans"].tolist()]
        index_of = {span: index for index, span in enumerate(spans)}
        pronouns = [index for index, span in enumerate(spans) if is_pronoun(document.words, span)]
        # One small step for each pronoun, which a GPU would take longer to start than a CPU to do
        probabilities = scores["antecedent_scores"].cpu().softmax(dim=1)
        rows = reference_probabilities(scores["antecedents"].cpu(), probabilities, pronouns)
        row_of = dict(zip(pronouns, rows, strict=True))
        names: dict[int, tuple[TokenSpan, float]] = {}
        for token, candidates in names_of_pronouns(document.words, clusters).items():
            row = row_of[index_of[token, token]]
            probability, best = row[[index_of[name] for name in candidates]].max(dim=0)
            names[token] = candidates[int(best)], float(probability)
        return names

    @staticmethod
    def average(members: list[Scores]) -> Scores:
        """
        Returns the scores of an ensemble for one document: the logarithm of the mean of its members'
        distributions over antecedents. All spans that any member has kept are kept; a member that has not
        kept a span counts as one that gives it no antecedent. *Shape:* as `scores`.
        """
        # (spans of any, 2), (spans of all members,): the index of each member's span among them
        spans, indices = torch.cat([scores["spans"] for scores in members]).unique(dim=0, return_inverse=True)
        size = len(spans)
        # For each member: (spans of any,), 0 for a span that it has not kept; (its pairs,) twice
        no_antecedent, pairs, log_probabilities = [], [], []
        rows_of_members = indices.split([len(scores["spans"]) for scores in members])
        for scores, rows in zip(members, rows_of_members, strict=True):
            distribution = scores["antecedent_scores"].log_softmax(dim=1)
            no_antecedent.append(distribution.new_zeros(size).index_copy(0, rows, distribution[:, 0]))
            is_pair = scores["antecedents"] >= 0
            antecedents = rows[scores["antecedents"].clamp(min=0)]
            # Span and antecedent as one number
            pairs.append((rows.unsqueeze(1) * size + antecedents)[is_pair])
            log_probabilities.append(distribution[:, 1:][is_pair])
        # (pairs of any,), (pairs of all members,)
        distinct, pair_index = torch.cat(pairs).unique(return_inverse=True)
        # (pairs of any,): the span, its antecedent, and the column of this antecedent in its span's row
        rows, antecedents = distinct // size, distinct % size
        pairs_of_row = rows.bincount(minlength=size)
        first_of_row = pairs_of_row.cumsum(0) - pairs_of_row
        columns = torch.arange(len(rows), device=rows.device) - first_of_row[rows]
        max_antecedents = max(1, int(pairs_of_row.max()))
        # (pairs of all members,) to the log-sum-exp of each pair, (pairs of any,)
        values = torch.cat(log_probabilities)
        top = values.new_full(distinct.shape, -torch.inf).scatter_reduce(0, pair_index, values, "amax")
        scaled = (values - top[pair_index]).exp()
        pair_sums = values.new_zeros(distinct.shape).index_add(0, pair_index, scaled).log() + top
        # (spans of any, 1 + max_antecedents), (spans of any, max_antecedents)
        row_sums = pair_sums.new_full((size, 1 + max_antecedents), -torch.inf)
        row_sums[:, 0] = torch.stack(no_antecedent).logsumexp(dim=0)
        row_sums[rows, 1 + columns] = pair_sums
        row_antecedents = indices.new_full((size, max_antecedents), -1)
        row_antecedents[rows, columns] = antecedents
        return {
            "window": members[0]["window"],
            "spans": spans,
            "antecedents": row_antecedents,
            "antecedent_scores": row_sums - log(len(members)),
        }

    def embed_sentences(
        self, tokens: TextFieldTensors, rows: torch.Tensor, longest: int
    ) -> tuple[torch.Tensor, ElmoRepresentations]:
        """*Shape:* indices of sentences, `(rows,)`, to `[x; ELMo]`, `(rows, longest, input_dim)`."""
        tokens_of_rows = {
            indexer: {name: ids[0, rows, :longest] for name, ids in tensors.items()}
            for indexer, tensors in tokens.items()
        }
        return self.embed(tokens_of_rows)

    def window(self, lengths: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(sentences,)` to the indices of the sentences that are read this time, `(rows,)`."""
        rows = torch.arange(len(lengths), device=lengths.device)
        if not self.training:
            return rows
        spare = max(0, len(rows) - self.max_training_sentences)
        first = int(torch.randint(spare + 1, ()))
        return rows[first : len(rows) - spare + first]

    def encode(
        self, tokens: TextFieldTensors, lengths: torch.Tensor, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `tokens` as in `scores`, `(sentences,)`, indices of the sentences to read, to word vectors
        `(words, word_dim)` and context vectors `(words, encoder dim)`.
        """
        starts = lengths.cumsum(0) - lengths
        words, context, positions_of_parts = [], [], []
        rows = rows[lengths[rows].argsort(descending=True, stable=True)]
        # A sentence is at least half as long as the longest in its part. A GPU takes longer to start a part
        # than to read padding, so there only memory divides them.
        min_ratio = 0.0 if lengths.is_cuda else 0.5
        sizes = batch_sizes(lengths[rows].tolist(), ENCODED_WORDS, min_ratio=min_ratio)
        for part in rows.split(list(sizes)):
            longest = int(lengths[part].max())
            positions = torch.arange(longest, device=lengths.device)
            # (part of sentences, longest)
            mask = positions < lengths[part].unsqueeze(1)
            # (part of sentences, longest, input_dim)
            embedded, elmo = self.embed_sentences(tokens, part, longest)
            embedded = self.lexical_dropout(embedded)
            # (part of sentences, longest, encoder dim)
            encoded = self.at_output(self.encoder(embedded, mask), elmo)
            words.append(embedded[mask][:, : self.word_dim])
            context.append(encoded[mask])
            positions_of_parts.append((starts[part].unsqueeze(1) + positions)[mask])
        # From the order of reading to the order of the text
        order = torch.cat(positions_of_parts).argsort()
        return torch.cat(words).index_select(0, order), torch.cat(context).index_select(0, order)

    def _loss(self, scores: Scores, spans: list[TokenSpan], gold: list[Cluster]) -> torch.Tensor:
        # Section 5
        entity_of = {mention: entity for entity, cluster in enumerate(gold) for mention in cluster}
        antecedents, pair_scores = scores["antecedents"], scores["antecedent_scores"]
        # (kept, 1)
        entities = torch.tensor([[entity_of.get(span, -1)] for span in spans], device=pair_scores.device)
        # (kept, antecedents)
        other = F.embedding(antecedents.clamp(min=0), entities).squeeze(2)
        right = (antecedents >= 0) & (entities >= 0) & (entities == other)
        # (kept, 1 + antecedents): a span without a gold antecedent has none
        right = torch.cat([~right.any(dim=1, keepdim=True), right], dim=1)
        return (
            pair_scores.logsumexp(dim=1) - pair_scores.masked_fill(~right, -torch.inf).logsumexp(dim=1)
        ).sum()


def _within(clusters: list[Cluster], first: int, end: int) -> list[Cluster]:
    """
    Returns the clusters without mentions outside of the words `[first, end)`. A cluster with only one mention
    inside has no coreference there, and is left out, unless it is a singleton of the whole document.
    """
    parts = ([span for span in cluster if first <= span[0] and span[1] < end] for cluster in clusters)
    return [part for part, cluster in zip(parts, clusters, strict=True) if len(part) > 1 or part == cluster]


def clusters_from_links(spans: Sequence[TokenSpan], antecedents: Sequence[int]) -> list[Cluster]:
    """`antecedents` has the index of each span's antecedent, -1 for none."""
    clusters: list[Cluster] = []
    cluster_of: dict[int, Cluster] = {}
    for index, antecedent in enumerate(antecedents):
        if antecedent >= 0:
            if antecedent not in cluster_of:
                clusters.append([spans[antecedent]])
                cluster_of[antecedent] = clusters[-1]
            cluster_of[index] = cluster_of[antecedent]
            cluster_of[index].append(spans[index])
    return sorted(map(sorted, clusters))
