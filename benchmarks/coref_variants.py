"""
Our coreference with one thing as allennlp-models' `coref` has it, to find which makes a difference.

`--overrides '{"model.type": "elmo_coref_document"}'` of `python -m benchmarks coref`, and so on.
"""

import torch
from allennlp.data import TextFieldTensors
from allennlp.models import Model

from elmo_tasks.coref import CorefModel
from elmo_tasks.elmo import ElmoRepresentations


@Model.register("elmo_coref_document")
class DocumentLstm(CorefModel):
    """The biLSTM reads all sentences as one sequence; ELMo stays within a sentence."""

    def _encode(
        self, tokens: TextFieldTensors, lengths: torch.Tensor, rows: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        longest = int(lengths[rows].max())
        # (sentences, longest)
        mask = torch.arange(longest, device=lengths.device) < lengths[rows].unsqueeze(1)
        # (sentences, longest, input_dim)
        embedded, elmo = self.embed_sentences(tokens, rows, longest)
        # (1, words, input_dim)
        words = self.lexical_dropout(embedded)[mask].unsqueeze(0)
        output = None if elmo.output is None else elmo.output[mask].unsqueeze(0)
        encoded = self.encoder(words, torch.ones_like(words[..., 0], dtype=torch.bool))
        context = self.at_output(encoded, ElmoRepresentations(None, output))
        return words[0, :, : self.word_dim], context[0]


@Model.register("elmo_coref_first_window")
class FirstWindow(CorefModel):
    """Training reads the first sentences of a document each time."""

    def _window(self, lengths: torch.Tensor) -> torch.Tensor:
        rows = torch.arange(len(lengths), device=lengths.device)
        return rows[: self.max_training_sentences] if self.training else rows


@Model.register("elmo_coref_document_first_window")
class DocumentFirstWindow(FirstWindow, DocumentLstm):
    """Both."""
