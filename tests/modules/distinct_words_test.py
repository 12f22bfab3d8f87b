import torch
from allennlp.common import Params
from allennlp.modules import TokenEmbedder

from elmo_tasks.modules.distinct_words import DistinctWords


def encoder():
    torch.manual_seed(0)
    return TokenEmbedder.from_params(
        Params(
            {
                "type": "character_encoding",
                "embedding": {"embedding_dim": 4, "num_embeddings": 9},
                "encoder": {
                    "type": "cnn",
                    "embedding_dim": 4,
                    "num_filters": 5,
                    "ngram_filter_sizes": [3],
                },
            }
        )
    )


def test_same_values_and_gradients_in_fewer_words():
    the, cat, padding = [2, 3, 4, 0], [5, 6, 7, 8], [0, 0, 0, 0]
    characters = torch.tensor([[the, cat, the], [the, padding, padding]])
    plain, wrapped = encoder(), DistinctWords(embedder=encoder())
    words = []
    wrapped.embedder.register_forward_pre_hook(lambda _, inputs: words.append(inputs[0].size(1)))
    expected, found = plain(characters), wrapped(characters)
    assert words == [3]
    assert wrapped.get_output_dim() == 5
    torch.testing.assert_close(found, expected)
    weights = torch.randn_like(expected)
    (expected * weights).sum().backward()
    (found * weights).sum().backward()
    pairs = zip(wrapped.embedder.parameters(), plain.parameters(), strict=True)
    for ours, theirs in pairs:
        torch.testing.assert_close(ours.grad, theirs.grad)
