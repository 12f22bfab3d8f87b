"""The interleaved highway LSTM of He et al. 2017 for semantic roles, the baseline of the ELMo paper."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from allennlp.common import JsonDict
from allennlp.data import TextFieldTensors
from allennlp.models import Model
from allennlp.nn.util import get_text_field_mask, sequence_cross_entropy_with_logits
from torch import nn

from elmo_tasks.common.batches import one_of_each
from elmo_tasks.common.values import Depth, Probability, Size
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tag_schemes import Scheme, allowed_transitions
from elmo_tasks.data.tokenization import Words
from elmo_tasks.modules.elmo_model import (
    ElmoModel,
    Outputs,
    Scores,
    append,
    average_with_logits,
    choose_texts,
)
from elmo_tasks.pipeline.results import Argument, Predicate, Predicates, TaskResult
from elmo_tasks.srl.highway_lstm import HighwayLstm
from elmo_tasks.srl.metric import SrlEval, from_tags, in_brackets
from elmo_tasks.srl.reader import SrlProposition
from elmo_tasks.srl.role_names import role_names


class TaggedPredicate(NamedTuple):
    """A predicate: its word and the IOB2 tags in its sentence, and the sentence's first word in the text."""

    word: int
    tags: list[str]
    start: int = 0


@dataclass
class SrlResult(TaskResult):
    """The predicates of a text, in the order of the input."""

    text: Words
    predicates: list[TaggedPredicate]
    reason: str = ""
    """Says why a sentence of a file has no prediction."""
    has_characters: bool = True
    """Whether JSON has positions in characters as well as in words."""

    @property
    def value(self) -> Predicates:
        words, offsets = self.text.words, self.text.offsets
        predicates, sentences = [], {}
        for tagged in self.predicates:
            index = tagged.start + tagged.word
            arguments = [argument for argument, _ in self._arguments(tagged)]
            predicate = Predicate(words[index], arguments, *offsets[index])
            predicates.append(predicate)
            end = offsets[tagged.start + len(tagged.tags) - 1][1]
            sentences[predicate.start] = offsets[tagged.start][0], end
        return Predicates(predicates, sentences)

    @property
    def label_names(self) -> dict[str, str]:
        return role_names(argument.label for predicate in self.value for argument in predicate.arguments)

    def to_json(self) -> JsonDict:
        predicates = list(map(self._predicate_json, self.predicates, self.value))
        reason = {"no_prediction": self.reason} if self.reason else {}
        return {"tokens": self.text.words, "predicates": predicates, **reason}

    def _predicate_json(self, tagged: TaggedPredicate, predicate: Predicate) -> JsonDict:
        words, (word, tags, start) = self.text.words, tagged
        end = start + len(tags)
        arguments = [
            {"label": argument.label, "text": argument.text, "spans": list(map(list, spans))}
            | ({"char_spans": list(map(list, argument.spans))} if self.has_characters else {})
            for argument, spans in self._arguments(tagged)
        ]
        characters = {"char_start": predicate.start, "char_end": predicate.end}
        return {
            "index": start + word,
            "predicate": predicate.text,
            "arguments": arguments,
            "tags": ["O"] * start + tags + ["O"] * (len(words) - end),
            "description": in_brackets(words[start:end], tags),
            **(characters if self.has_characters else {}),
        }

    def _arguments(self, predicate: TaggedPredicate) -> Iterator[tuple[Argument, list[tuple[int, int]]]]:
        """Yields the arguments of a predicate, and the words `[start, end)` of their parts in the text."""
        text, offsets = self.text.text, self.text.offsets
        for label, spans in from_tags(predicate.tags):
            in_words = [(start + predicate.start, end + predicate.start) for start, end in spans]
            characters = [(offsets[start][0], offsets[end - 1][1]) for start, end in in_words]
            parts = " ... ".join(text[start:end] for start, end in characters)
            yield Argument(label, parts, characters), in_words


@Model.register("elmo_srl")
class SrlModel(ElmoModel):
    """
    He et al. 2017 (ACL 2017, P17-1044); Peters et al. 2018, section 4 and supplement: each word vector gets a
    vector that marks the predicate, eight LSTM layers alternately read forward and backward, and each word
    gets a tag. The best tags are the likeliest sequence that IOB2 allows.

    Word vectors and ELMo, with its dropout, are computed once a sentence, not once a predicate.

    # Parameters

    predicate_dim : size of the vector that marks whether a word is the predicate.
    hidden_size : units of each LSTM layer.
    num_layers : number of LSTM layers.
    dropout : probability of the LSTM's recurrent dropout, see `HighwayLstm`.
    label_smoothing : share of a gold tag's probability that the loss spreads over all tags (Szegedy et al.
        2016, arXiv:1512.00567).
    The others : see `ElmoModel`.
    """

    default_predictor = "elmo_srl"
    metadata_class = SrlProposition
    main_metrics = ("precision", "recall", "f1")
    without_gold = 'the predicates have no "arguments"'

    def __init__(
        self,
        *,
        predicate_dim: Size,
        hidden_size: Size,
        num_layers: Depth,
        dropout: Probability,
        label_smoothing: Probability = 0.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tags = self.label_names()
        self.label_smoothing = label_smoothing
        indicators = nn.init.xavier_uniform_(torch.empty(2, predicate_dim))
        self.predicate_embedding = nn.Embedding.from_pretrained(indicators, freeze=False)
        self.encoder = HighwayLstm(
            input_dim=self.input_dim + predicate_dim,
            hidden_dim=hidden_size,
            num_layers=num_layers,
            dropout=dropout,
        )
        self.tag_projection = nn.Linear(self.encoder.output_dim + self.elmo_output_dim, len(self.tags))
        self.viterbi = Iob2Viterbi(self.tags)
        self.metric = SrlEval()
        self.initialize()

    def forward(
        self,
        tokens: TextFieldTensors,
        verb_indicator: torch.Tensor,
        metadata: list[SrlProposition],
        tags: torch.Tensor | None = None,
    ) -> Outputs:
        """
        Tags the arguments of one predicate in each row. Returns the scores, `best`, the IOB2 tags of each
        proposition, `metadata`, and with gold tags the `loss`: the mean over the words of a proposition, and
        over the propositions, of the negative log-likelihood.

        *Shape:* `verb_indicator` `(batch, tokens)`, 1 at the predicate; gold `tags` `(batch, tokens)`.
        """
        return self.decode(self.scores(tokens, verb_indicator, metadata), metadata, tags)

    def scores(
        self, tokens: TextFieldTensors, verb_indicator: torch.Tensor, metadata: list[SrlProposition]
    ) -> Scores:
        """
        Returns `logits` `(batch, tokens, tags)` and `mask` `(batch, tokens)`: the words that have a tag, none
        without a predicate.
        """
        sentences = torch.tensor(
            [proposition.sentence for proposition in metadata], device=verb_indicator.device
        )
        rows, indices = one_of_each(sentences)
        # (sentences, tokens, input_dim)
        embedded, elmo = self.embed(choose_texts(tokens, rows))
        mask = get_text_field_mask(tokens)
        # (batch, tokens, input_dim + predicate_dim)
        marked = append(embedded[indices], self.predicate_embedding(verb_indicator))
        # (batch, tokens, hidden_size)
        encoded = self.encoder(marked, mask)
        if elmo.output is not None:
            # (batch, tokens, hidden_size + elmo_output_dim)
            encoded = append(encoded, elmo.output[indices])
        return {
            "logits": self.tag_projection(encoded),
            "mask": mask & verb_indicator.any(dim=1, keepdim=True),
        }

    def decode(
        self, scores: Scores, metadata: list[SrlProposition], tags: torch.Tensor | None = None
    ) -> Outputs:
        logits, mask = scores["logits"], scores["mask"]
        # (batch, tokens)
        ids = self.viterbi(logits.log_softmax(dim=2), mask).tolist()
        best = [
            [self.tags[tag] for tag in row[:length]]
            for row, length in zip(ids, mask.sum(dim=1).tolist(), strict=True)
        ]
        outputs = {**scores, "best": best, "metadata": metadata}
        self.lacks_gold = tags is None
        if tags is not None:
            outputs["loss"] = sequence_cross_entropy_with_logits(
                logits, tags, mask, label_smoothing=self.label_smoothing or None
            )
            labelled = [i for i, proposition in enumerate(metadata) if proposition.predicate is not None]
            gold = [metadata[i].gold_tags or [] for i in labelled]
            self.metric([best[i] for i in labelled], gold)
        return outputs

    average = staticmethod(average_with_logits)

    def results(self, outputs: Outputs) -> list[SrlResult]:
        """Has no positions in characters: the words may come from a file without the text."""
        results = []
        for proposition, tags in zip(outputs["metadata"], outputs["best"], strict=True):
            word = proposition.predicate
            predicates = [] if word is None else [TaggedPredicate(word, tags)]
            results.append(SrlResult(join_words(proposition.words), predicates, has_characters=False))
        return results


class Iob2Viterbi(nn.Module):
    """
    A decoder that finds the tags with the highest sum of scores among the sequences that IOB2 allows (Viterbi
    1967): none starts with I-X, and only B-X and I-X come before I-X. So a step looks at the best of all
    tags, and for I-X at two more, for all sentences of a batch together, in time that grows with the number
    of tags and not of their pairs. `tags` are in the order of their ids, each I-X with its B-X.
    """

    starts: torch.Tensor
    opening: torch.Tensor

    def __init__(self, tags: Sequence[str]) -> None:
        super().__init__()
        # (tags,): whether the tag may start a sentence; only I-X may not
        self.register_buffer("starts", allowed_transitions(tags, Scheme.IOB2).start, persistent=False)
        ids = {tag: i for i, tag in enumerate(tags)}
        # (tags,): B-X for I-X, else the tag itself
        opening = [ids[f"B{tag[1:]}"] if tag[0] == "I" else i for i, tag in enumerate(tags)]
        self.register_buffer("opening", torch.tensor(opening), persistent=False)

    @torch.no_grad()
    def forward(self, scores: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
        """*Shape:* `(batch, tokens, tags)`, `(batch, tokens)` to ids `(batch, tokens)`, 0 at padding."""
        itself = torch.arange(len(self.starts), device=scores.device)
        # (batch, tags): the score of the best sequence that ends with a tag
        best = scores[:, 0].masked_fill(~self.starts, -torch.inf)
        # (batch, tags) of each step: the tag before
        backpointers = []
        for step, real in zip(scores.unbind(1)[1:], mask.unsqueeze(2).unbind(1)[1:], strict=True):
            highest, before = best.max(dim=1, keepdim=True)
            opened = best[:, self.opening]
            before = before.where(self.starts, itself.where(best >= opened, self.opening))
            backpointers.append(before.where(real, itself))
            best = (highest.where(self.starts, torch.maximum(best, opened)) + step).where(real, best)
        # (batch, 1)
        tags = [best.argmax(dim=1, keepdim=True)]
        for backpointer in reversed(backpointers):
            tags.append(backpointer.gather(1, tags[-1]))
        return torch.cat(tags[::-1], dim=1) * mask
