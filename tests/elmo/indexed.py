"""Batches of AllenNLP's, by the indexers of ELMo."""

import torch
from allennlp.common import Params
from allennlp.data import Batch, Instance, Token, TokenIndexer, Vocabulary
from allennlp.data.fields import TextField


def indexed(name: str, sentences: list[list[str]]) -> torch.Tensor:
    """The ids of a batch, by the indexer `elmo_{name}`."""
    indexer = TokenIndexer.from_params(Params({"type": f"elmo_{name}"}))
    batch = Batch(
        [Instance({"tokens": TextField(list(map(Token, words)), {"elmo": indexer})}) for words in sentences]
    )
    batch.index_instances(Vocabulary())
    return batch.as_tensor_dict()["tokens"]["elmo"][name]
