from typing import Any

import pytest
import torch
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.modules.text_field_embedders import BasicTextFieldEmbedder
from allennlp.nn import InitializerApplicator
from allennlp.nn.initializers import ConstantInitializer
from torch import nn

from elmo_tasks.modules.elmo_model import ElmoModel


class First(ElmoModel):
    def __init__(self, *, size: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.first = nn.Linear(size, size)


class Second(First):
    def __init__(self, **kwargs: Any) -> None:
        super().__init__(size=2, **kwargs)
        self.second = nn.Linear(2, 2)


class Third(Second):
    """It has no constructor of its own."""


@pytest.mark.parametrize("kind", [Second, Third])
def test_the_initializer_runs_once_over_all_parameters(kind):
    calls = []

    class Counting(InitializerApplicator):
        def __call__(self, module: nn.Module) -> None:
            calls.append(module)
            super().__call__(module)

    initializer = Counting(regexes=[("(first|second).weight", ConstantInitializer(3.0))])
    model = kind(vocab=Vocabulary(), text_field_embedder=BasicTextFieldEmbedder({}), initializer=initializer)
    assert calls == [model]
    assert torch.equal(model.first.weight, torch.full((2, 2), 3.0))
    assert torch.equal(model.second.weight, torch.full((2, 2), 3.0))


def test_labels_that_come_later():
    """The model has no score for them."""
    vocab = Vocabulary()
    vocab.add_token_to_namespace("PER", "labels")
    model = Second(vocab=vocab, text_field_embedder=BasicTextFieldEmbedder({}))
    vocab.add_token_to_namespace("word", "tokens")
    model.extend_embedder_vocab()
    vocab.add_token_to_namespace("LOC", "labels")
    with pytest.raises(
        ConfigurationError, match="found 'LOC' among the labels, which the model does not know"
    ):
        model.extend_embedder_vocab()
