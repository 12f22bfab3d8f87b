"""The reading comprehension model of Clark and Gardner 2017, with windows and a score of no answer."""

from dataclasses import dataclass, replace
from math import exp, log
from typing import Any, NamedTuple

import torch
from allennlp.common import JsonDict
from allennlp.common.checks import ConfigurationError
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.modules import InputVariationalDropout
from allennlp.nn.util import get_text_field_mask
from torch import nn
from torch.nn import functional as F

from elmo_tasks.common.batches import one_of_each
from elmo_tasks.common.values import NonNegativeInt, PositiveInt, Probability, Size
from elmo_tasks.data.tokenization import Words
from elmo_tasks.modules.elmo_model import ElmoModel, Outputs, Scores, choose_texts
from elmo_tasks.modules.layers import BiGru, attention
from elmo_tasks.pipeline.results import Answer, TaskResult
from elmo_tasks.squad.metric import SquadMetric
from elmo_tasks.squad.probabilities import AnswerProbabilities
from elmo_tasks.squad.reader import SquadQuestion

N_BEST = 20
NO_ANSWER_SIZE = 80
"""Units of the hidden layer of `NoAnswerHead`, as in the paper."""
_LOG_PROBABILITIES = {"start", "end", "spans", "no_answer"}


class SpanAnswer(NamedTuple):
    """An answer, with its tokens and characters `[start, end)`; without an answer, the text is empty."""

    text: str
    token_start: int | None
    token_end: int | None
    char_start: int | None
    char_end: int | None
    probability: float | None


NO_ANSWER = SpanAnswer("", None, None, None, None, None)


@dataclass
class SquadResult(TaskResult):
    """
    The best answers to a question, the best first; none if it or the passage has no words.

    *Shape:* `question_attention` `(tokens, words)`, `self_attention` `(tokens, window)`, over the window of
    each token, and its first token, `window_start` `(tokens,)`.
    """

    question: SquadQuestion
    n_best: list[SpanAnswer]
    question_attention: torch.Tensor
    self_attention: torch.Tensor
    window_start: torch.Tensor
    answerable: float | None = None
    """The probability that the passage tells, of a model that knows it; see `AnswerProbabilities`."""
    min_probability: float = 0.0

    @property
    def best(self) -> SpanAnswer:
        """
        The first answer; the empty one, with its probability, if that times `answerable` is below
        `min_probability`.
        """
        best = self.n_best[0] if self.n_best else NO_ANSWER
        tells = 1.0 if self.answerable is None else self.answerable
        is_sure = best.probability is None or best.probability * tells >= self.min_probability
        return best if is_sure else NO_ANSWER._replace(probability=best.probability)

    def above(self, min_probability: float) -> "SquadResult":
        return replace(self, min_probability=min_probability)

    @property
    def value(self) -> Answer:
        best = self.best
        return Answer(best.text, best.char_start, best.char_end, best.probability)

    def to_json(self) -> JsonDict:
        best = self.best._asdict()
        return {
            "id": self.question.id,
            "answer": best.pop("text"),
            **best,
            "answerable": self.answerable,
            "n_best": [answer._asdict() for answer in self.n_best],
            "passage_tokens": self.question.passage.words,
            "question_tokens": self.question.question.words,
            "question_attention": self.question_attention,
            "self_attention": self.self_attention,
            "window_start": self.window_start,
        }


@Model.register("elmo_squad")
class SquadModel(ElmoModel):
    """
    Clark and Gardner 2017, arXiv:1710.10723, section 2, as in Peters et al. 2018, supplement: one biGRU reads
    passage and question, attention matches them, another biGRU and self-attention relate distant parts of the
    passage, and two chained biGRUs score where the answer starts and where it ends.

    The model embeds and encodes a passage once for all its questions in a batch. The attention reads it in
    overlapping windows. The start of the answer has one distribution over all tokens of the passage, and so
    has its end: windows are comparable (section 3.1, shared normalisation).

    # Parameters

    hidden_size : units of each biGRU, for each direction.
    linear_size : units of the layers after the attentions.
    dropout : probability of the variational dropout on the input of each biGRU and each attention.
    longest_answer : maximum number of tokens of a predicted answer.
    window, overlap : tokens of a window, and the tokens, fewer, that it shares with the window before it.
    no_answer : whether a question may have no answer, as in SQuAD 2.0 (section 3.3); see `NoAnswerHead`.
    The others : see `ElmoModel`.
    """

    default_predictor = "elmo_squad"
    metadata_class = SquadQuestion

    def __init__(
        self,
        *,
        hidden_size: Size,
        linear_size: Size,
        dropout: Probability,
        longest_answer: PositiveInt,
        window: PositiveInt,
        overlap: NonNegativeInt,
        no_answer: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        if window <= overlap:
            raise ConfigurationError(f"window {window} must be greater than overlap {overlap}")

        def gru(size: int) -> BiGru:
            return BiGru(input_dim=size, hidden_sizes=[hidden_size], dropout=0.0)

        self.longest_answer, self.window, self.overlap = longest_answer, window, overlap
        self.dropout = InputVariationalDropout(dropout)
        self.encoder = gru(self.input_dim)
        self.attention = BidirectionalAttention(dim=self.encoder.output_dim + self.elmo_output_dim)
        self.merge = nn.Linear(self.attention.output_dim, linear_size)
        self.self_encoder = gru(linear_size)
        self.self_attention = SelfAttention(dim=self.self_encoder.output_dim)
        self.self_merge = nn.Linear(self.self_attention.output_dim, linear_size)
        self.start_encoder = gru(linear_size)
        self.end_encoder = gru(linear_size + self.start_encoder.output_dim)
        self.start = nn.Linear(self.start_encoder.output_dim, 1)
        self.end = nn.Linear(self.end_encoder.output_dim, 1)
        self.no_answer = (
            NoAnswerHead(dim=linear_size, start_dim=self.start.in_features, end_dim=self.end.in_features)
            if no_answer
            else None
        )
        self.probabilities = AnswerProbabilities()
        self.metric = SquadMetric("2.0" if no_answer else "1.1")
        self.initialize()

    def forward(
        self,
        passage: TextFieldTensors,
        question: TextFieldTensors,
        metadata: list[SquadQuestion],
        span_start: torch.Tensor | None = None,
        span_end: torch.Tensor | None = None,
    ) -> Outputs:
        """
        Answers questions. Returns the scores, `metadata`, the log probabilities `best` `(batch, n)` of the
        best spans and perhaps `answerable` `(batch,)`, see `AnswerProbabilities`; their first and last tokens
        `indices` `(batch, n, 2)`; and with gold spans the `loss`: the mean negative log-likelihood over the
        questions that have a span or no answer.

        *Shape:* `span_start`, `span_end` `(batch, 1)`, the first and the last token; negative without a span.
        """
        scores = self.scores(passage, question, metadata)
        return self.decode(scores, metadata, span_start, span_end)

    def scores(
        self, passage: TextFieldTensors, question: TextFieldTensors, metadata: list[SquadQuestion]
    ) -> Scores:
        """
        Returns the log probabilities of `_distribution`, and those of `spans`, see `span_scores`. In
        evaluation, also `question_attention` `(batch, tokens, words)`, `self_attention` `(batch, tokens,
        window)`, over the tokens of each token's window, and the first token of that window, `window_start`
        `(batch, tokens)`.
        """
        # (passages,), (batch,): a row for each distinct passage, and the passage of each question
        device = get_text_field_mask(passage).device
        paragraphs = torch.tensor([row.paragraph for row in metadata], device=device)
        rows, passage_of_question = one_of_each(paragraphs)
        # (passages, tokens, dim), (passages, tokens)
        passages, passage_mask = self.encode(choose_texts(passage, rows))
        windows = Windows(passage_mask, size=self.window, overlap=self.overlap)
        scores = self.scores_in_windows(passages, passage_mask, question, windows, passage_of_question)
        scores["spans"] = span_scores(scores["start"], scores["end"], longest=self.longest_answer)
        if not self.training:
            scores["window_start"] = windows.first[passage_of_question]
        return scores

    def scores_in_windows(
        self,
        passages: torch.Tensor,
        passage_mask: torch.Tensor,
        question: TextFieldTensors,
        windows: Any,
        passage_of_question: torch.Tensor,
    ) -> Scores:
        """
        Returns the `scores` without `spans` and `window_start`, for the `Windows` of encoded passages.

        *Shape:* `(passages, tokens, dim)`, `(passages, tokens)`, and the passage of each question `(batch,)`.
        """
        # (batch * windows, window, dim), (batch * windows, window)
        windowed, mask = (
            windows.split(part)[passage_of_question].flatten(0, 1) for part in (passages, passage_mask)
        )
        # (batch * windows, words, dim), (batch * windows, words)
        questions, question_mask = (
            part.repeat_interleave(windows.count, dim=0) for part in self.encode(question)
        )
        # (batch * windows, window, 4 dim), (batch * windows, window, words)
        attended, to_question = self.attention(windowed, questions, mask, question_mask)
        # (batch * windows, window, linear_size)
        merged = self.merge(attended).relu()
        # (batch * windows, window, 2 hidden_size)
        context = self.dropout(self.self_encoder(self.dropout(merged), mask))
        # (batch * windows, window, 6 hidden_size), (batch * windows, window, window)
        attended, to_itself = self.self_attention(context, mask)
        # (batch * windows, window, linear_size)
        merged = self.dropout(merged + self.self_merge(attended).relu())
        # (batch * windows, window, 2 hidden_size)
        start_states = self.start_encoder(merged, mask)
        end_states = self.end_encoder(torch.cat([merged, self.dropout(start_states)], dim=2), mask)

        def joined(part: torch.Tensor) -> torch.Tensor:
            """*Shape:* `(batch * windows, window, ...)` to `(batch, tokens, ...)`."""
            return windows.join(part.unflatten(0, (-1, windows.count)), passage_of_question)

        outputs = self._distribution(
            joined(merged), joined(start_states), joined(end_states), passage_mask[passage_of_question]
        )
        if not self.training:
            outputs |= {"question_attention": joined(to_question), "self_attention": joined(to_itself)}
        return outputs

    def encode(self, text: TextFieldTensors) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns tokens in context, `(batch, tokens, 2 hidden_size + elmo_output_dim)`, and their mask."""
        mask = get_text_field_mask(text)
        embedded, elmo = self.embed(text)
        encoded = self.encoder(self.dropout(embedded), mask)
        return self.dropout(self.at_output(encoded, elmo)), mask

    def _distribution(
        self, merged: torch.Tensor, start_states: torch.Tensor, end_states: torch.Tensor, mask: torch.Tensor
    ) -> Scores:
        """
        Returns log probabilities: `start` and `end` `(batch, tokens)`, minus infinity at padding; with
        `no_answer` that of none, `(batch,)`, after which the starts share the rest of the probability; and
        the `evidence` of all spans together, `(batch,)`, which is not normalised.
        """
        # (batch, tokens)
        start_scores, end_scores = (
            layer(states).squeeze(2).masked_fill(~mask, -torch.inf)
            for layer, states in ((self.start, start_states), (self.end, end_states))
        )
        start, end = start_scores.log_softmax(dim=1), end_scores.log_softmax(dim=1)
        # (batch,)
        evidence = start_scores.logsumexp(dim=1) + end_scores.logsumexp(dim=1)
        no_answer = {}
        if self.no_answer is not None:
            # (batch,): of no answer against all answers
            odds = self.no_answer(merged, start_states, end_states, start, end, mask) - evidence
            no_answer["no_answer"] = F.logsigmoid(odds)
            start = start + F.logsigmoid(-odds).unsqueeze(1)
        return {"start": start, "end": end, "evidence": evidence, **no_answer}

    def decode(
        self,
        scores: Scores,
        metadata: list[SquadQuestion],
        span_start: torch.Tensor | None = None,
        span_end: torch.Tensor | None = None,
    ) -> Outputs:
        # (batch, n), (batch, n, 2)
        best, indices = best_spans(scores["spans"], N_BEST)
        probabilities = self.probabilities(best, indices, scores["evidence"], metadata)
        outputs = {**scores, **probabilities, "indices": indices, "metadata": metadata}
        if span_start is not None and span_end is not None:
            # (batch, 2)
            span = torch.cat([span_start, span_end], dim=1)
            loss = outputs["loss"] = self._loss(scores, metadata, span)
            if loss.isnan():
                return outputs  # No answer is the best; AllenNLP stops the training.
            for answers, question in zip(_answers(outputs), metadata, strict=True):
                self.metric(answers[0].text, question.answers or [])
        return outputs

    def _loss(self, scores: Scores, metadata: list[SquadQuestion], span: torch.Tensor) -> torch.Tensor:
        # (batch,)
        first, last = span.clamp(min=0).unbind(dim=1)
        rows = torch.arange(len(span), device=span.device)
        likelihood = scores["start"][rows, first] + scores["end"][rows, last]
        used = span[:, 0] >= 0
        unanswerable = torch.tensor([not question.answers for question in metadata], device=span.device)
        if "no_answer" in scores:
            likelihood = torch.where(unanswerable, scores["no_answer"], likelihood)
            used = used | unanswerable
        elif unanswerable.any():
            raise ConfigurationError(
                "a question has no answer: the model needs no_answer: true, or the dataset reader "
                "unanswerable: false"
            )
        return -likelihood[used].sum() / used.sum().clamp(min=1)

    @staticmethod
    def average(members: list[Scores]) -> Scores:
        """Returns the mean of the members' probabilities; for errors see `ElmoModel.average`."""
        mean = ElmoModel.average(members)
        for name in mean.keys() & _LOG_PROBABILITIES:
            parts = torch.stack([scores[name] for scores in members])
            mean[name] = parts.logsumexp(dim=0) - log(len(members))
        return mean

    def results(self, outputs: Outputs) -> list[SquadResult]:
        """Cuts the padding off the attentions."""
        questions: list[SquadQuestion] = outputs["metadata"]
        answerable = outputs["answerable"].tolist() if "answerable" in outputs else [None] * len(questions)
        results = []
        for row, (question, n_best) in enumerate(zip(questions, _answers(outputs), strict=True)):
            tokens, words = len(question.passage.words), len(question.question.words)
            attention = outputs["question_attention"][row, :tokens, :words]
            self_attention, window_start = (
                outputs[name][row, :tokens] for name in ("self_attention", "window_start")
            )
            results.append(
                SquadResult(question, n_best, attention, self_attention, window_start, answerable[row])
            )
        return results


def _answers(outputs: Outputs) -> list[list[SpanAnswer]]:
    answers = [
        [
            _answer_at(question.passage, bounds, score)
            for bounds, score in zip(indices, scores, strict=True)
            if score > -torch.inf
        ]
        for question, indices, scores in zip(
            outputs["metadata"], outputs["indices"].tolist(), outputs["best"].tolist(), strict=True
        )
    ]
    if "no_answer" in outputs:
        for row, score in zip(answers, outputs["no_answer"].tolist(), strict=True):
            row.append(NO_ANSWER._replace(probability=exp(score)))
            row.sort(key=lambda answer: answer.probability or 0.0, reverse=True)
    return answers


def _answer_at(passage: Words, bounds: list[int], score: float) -> SpanAnswer:
    first, last = bounds
    start, end = passage.offsets[first][0], passage.offsets[last][1]
    return SpanAnswer(passage.text[start:end], first, last + 1, start, end, exp(score))


class TriLinear(nn.Module):
    """
    The similarity `w1 . x + w2 . y + w3 . (x * y)` of two vectors. A bias would cancel in the softmax.

    It is computed as a vector for each side and one product of two matrices, without any tensor of rows x
    columns x dim.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.empty(3, dim))
        bound = (6 / (3 * dim + 1)) ** 0.5
        nn.init.uniform_(self.weights, -bound, bound)

    def forward(self, left: torch.Tensor, right: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, rows, dim)`, `(batch, columns, dim)` to `(batch, rows, columns)`."""
        left_weights, right_weights, product_weights = self.weights
        # (batch, rows, dim): one product with `right` gives the second term and the third.
        factors = torch.addcmul(right_weights, left, product_weights)
        return torch.baddbmm((left @ left_weights).unsqueeze(2), factors, right.mT)


class BidirectionalAttention(nn.Module):
    """
    The attention of BiDAF (Seo et al. 2017, arXiv:1611.01603) between a passage and a question, both of
    vectors of size `dim`. For each token h of the passage, it returns `[h, c, h * c, q * c]`: c is the
    attended question, and q the passage that the question attends to.
    """

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.similarity = TriLinear(dim=dim)
        self.output_dim = 4 * dim

    def forward(
        self,
        passage: torch.Tensor,
        question: torch.Tensor,
        passage_mask: torch.Tensor,
        question_mask: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(batch, tokens, dim)`, `(batch, words, dim)` and their masks, to `(batch, tokens,
        output_dim)` and the attention over the question, `(batch, tokens, words)`.
        """
        # (batch, tokens, words)
        similarity = self.similarity(passage, question)
        # (batch, 1, words)
        real_words = question_mask.unsqueeze(1)
        # (batch, tokens, words)
        to_question = attention(similarity, real_words)
        # (batch, tokens, dim)
        attended = to_question @ question
        # (batch, tokens)
        to_passage = attention(similarity.masked_fill(~real_words, -torch.inf).amax(dim=2), passage_mask)
        # (batch, 1, dim)
        attended_passage = to_passage.unsqueeze(1) @ passage
        outputs = torch.cat([passage, attended, passage * attended, attended_passage * attended], dim=2)
        return outputs, to_question


class SelfAttention(nn.Module):
    """Self-attention without the token itself: for each token h `[h, c, h * c]`, c what h attends to."""

    def __init__(self, *, dim: int) -> None:
        super().__init__()
        self.similarity = TriLinear(dim=dim)
        self.output_dim = 3 * dim

    def forward(self, passage: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """
        *Shape:* `(batch, tokens, dim)`, `(batch, tokens)` to `(batch, tokens, output_dim)` and the attention,
        `(batch, tokens, tokens)`, whose diagonal is 0.
        """
        # (tokens, tokens)
        diagonal = torch.eye(mask.size(1), dtype=torch.bool, device=mask.device)
        # (batch, tokens, tokens)
        to_others = attention(self.similarity(passage, passage), mask.unsqueeze(1) & ~diagonal)
        # (batch, tokens, dim)
        attended = to_others @ passage
        return torch.cat([passage, attended, passage * attended], dim=2), to_others


class Windows:
    """
    Windows of `size` tokens, each of which shares `overlap` tokens with the window before it. They bound the
    memory of layers that need the square of the tokens. The result for a token comes from the window in which
    it has the most context: in the middle of an overlap, the next window takes over. The windows of a passage
    do not depend on the other passages of its batch.

    *Shape:* `mask` `(passages, tokens)`.
    """

    def __init__(self, mask: torch.Tensor, *, size: int, overlap: int) -> None:
        tokens = mask.size(1)
        self.step = size - overlap
        self.count = 1 + max(0, -(-(tokens - size) // self.step))
        self.size = size if self.count > 1 else tokens
        self.padding = overlap + self.step * self.count - tokens if self.count > 1 else 0
        # (passages, 1)
        last = ((mask.sum(dim=1, keepdim=True) - overlap - 1) // self.step).clamp(min=0)
        # (tokens,)
        indices = torch.arange(tokens, device=mask.device)
        # (passages, tokens): the window of each token
        self.of_token = torch.minimum(((indices - overlap // 2) // self.step).clamp(min=0), last)
        # (passages, tokens): the first token of its window
        self.first = self.of_token * self.step
        # (passages, tokens): the index of each token among the tokens of all windows
        self._rows = self.of_token * self.size + indices - self.first

    def split(self, values: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(passages, tokens, ...)` to `(passages, windows, size, ...)`, 0 after the end."""
        if self.count == 1:
            return values.unsqueeze(1)
        features = values.dim() - 2
        # (passages, padded tokens, ...)
        padded = F.pad(values, (0, 0) * features + (0, self.padding))
        return padded.unfold(1, self.size, self.step).movedim(-1, 2)

    def join(self, values: torch.Tensor, passages: torch.Tensor) -> torch.Tensor:
        """
        *Shape:* `(rows, windows, size, ...)`, and the passage of each row `(rows,)`, to each token's value in
        its window, `(rows, tokens, ...)`, arbitrary at padding.
        """
        if self.count == 1:
            return values.squeeze(1)
        rows = torch.arange(len(values), device=values.device).unsqueeze(1)
        return values.flatten(1, 2)[rows, self._rows[passages]]


def span_scores(start: torch.Tensor, end: torch.Tensor, *, longest: int) -> torch.Tensor:
    """
    Adds the scores of start and end: index `[i, k]` is the span of `k + 1` tokens that starts at token `i`.

    *Shape:* `(batch, tokens)` twice, minus infinity at padding, to `(batch, tokens, longest)`.
    """
    # (batch, tokens, longest)
    ends = F.pad(end, (0, longest - 1), value=-torch.inf).unfold(1, longest, 1)
    return start.unsqueeze(2) + ends


def best_spans(scores: torch.Tensor, n: int) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Returns the best `scores` of `span_scores`, `(batch, at most n)`, the best first, and their first and last
    tokens, `(batch, n, 2)`. Spans of equal scores come in any order.
    """
    longest = scores.size(2)
    best, indices = scores.flatten(1).topk(min(n, scores[0].numel()), dim=1)
    # (batch, n)
    first = indices // longest
    return best, torch.stack([first, first + indices % longest], dim=2)


class NoAnswerHead(nn.Module):
    """
    The score of a question having no answer in its passage (Clark and Gardner 2017, section 3.3): two layers
    over three summaries of the passage, weighted by an attention of its own, by the probability that an
    answer starts, and by the probability that it ends. The states to summarise have the sizes `dim`,
    `start_dim` and `end_dim`.
    """

    def __init__(self, *, dim: int, start_dim: int, end_dim: int) -> None:
        super().__init__()
        self.attention = nn.Linear(dim, 1)
        self.hidden = nn.Linear(dim + start_dim + end_dim, NO_ANSWER_SIZE)
        self.output = nn.Linear(NO_ANSWER_SIZE, 1)

    def forward(
        self,
        merged: torch.Tensor,
        start_states: torch.Tensor,
        end_states: torch.Tensor,
        start_log_probabilities: torch.Tensor,
        end_log_probabilities: torch.Tensor,
        mask: torch.Tensor,
    ) -> torch.Tensor:
        """*Shape:* states `(batch, tokens, its size)`, the others `(batch, tokens)`, to `(batch,)`."""
        # (batch, tokens)
        attention = self.attention(merged).squeeze(2).masked_fill(~mask, -torch.inf).softmax(dim=1)
        weighted = (
            (attention, merged),
            (start_log_probabilities.exp(), start_states),
            (end_log_probabilities.exp(), end_states),
        )
        # (batch, dim + start_dim + end_dim)
        summary = torch.cat([weights.unsqueeze(1) @ states for weights, states in weighted], dim=2).squeeze(1)
        return self.output(self.hidden(summary).relu()).squeeze(1)
