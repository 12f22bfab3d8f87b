"""
A standardized token layer.

Training leaves features of the token layer of very different size and far from zero. A task's mix sees little
but the largest of them. The standardized layer has features of mean 0 and deviation 1 over a text. The first
LSTM layer reverses the change, so that all layers above, and the language model, change only by rounding.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.elmo.model import BiLm
from elmo_tasks.elmo.model.encoders import WordEncoder

WORDS_PER_BATCH = 4096
MIN_DEVIATION = 1e-6


@torch.no_grad()
def standardize_tokens(bilm: BiLm, sentences: Iterable[Sequence[str]]) -> None:
    """
    Scales the token layer in place, so that each feature has mean 0 and deviation 1 over the words of
    `sentences`.

    # Raises
    `ElmoError`: a text of less than two distinct words; or a character CNN without a projection, whose
    features cannot be below zero.
    """
    mean, deviation = _moments(bilm, Counter(word for words in sentences for word in words))
    encoder = bilm.token_encoder
    if isinstance(encoder, WordEncoder):
        encoder.embedding.sub_(mean).div_(deviation)
    elif encoder.projection is not None:
        encoder.projection.weight.div_(deviation.unsqueeze(1))
        encoder.projection.bias.sub_(mean).div_(deviation)
    else:
        raise ElmoError("the character CNN has no projection: its features cannot be standardized")
    for direction in range(2):
        lstm = bilm.lstm.layers(direction)[0]
        # (4 dim, projection_dim)
        for_input = lstm.weight[:, : len(mean)]
        lstm.bias.add_(for_input @ mean)
        for_input.mul_(deviation)


def _moments(bilm: BiLm, counts: Counter[str]) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns mean and deviation of each feature over a text. *Shape:* both `(projection_dim,)`."""
    if len(counts) < 2:
        raise ElmoError(
            f"the text has {len(counts)} distinct words; to standardize by it, it needs 2 or more"
        )
    total = weighted_sum = weighted_squares = torch.zeros((), dtype=torch.float64)
    distinct_words = list(counts)
    for start in range(0, len(distinct_words), WORDS_PER_BATCH):
        words = distinct_words[start : start + WORDS_PER_BATCH]
        encoded = bilm.token_encoder(bilm.padded_ids([words])[0])
        vectors = encoded.double()
        weights = torch.tensor([counts[word] for word in words], dtype=torch.float64, device=vectors.device)
        total = total + weights.sum()
        weighted_sum = weighted_sum + weights @ vectors
        weighted_squares = weighted_squares + weights @ vectors.square()
    mean = weighted_sum / total
    deviation = (weighted_squares / total - mean.square()).clamp_min(0).sqrt().clamp_min(MIN_DEVIATION)
    return mean.to(encoded.dtype), deviation.to(encoded.dtype)
