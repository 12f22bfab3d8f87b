import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Vocabulary
from allennlp.modules import TokenEmbedder
from torch.nn import functional as F

VOCAB = Vocabulary(counter={"token_characters": dict.fromkeys("abcdefg", 1)})


def build(**options):
    torch.manual_seed(0)
    settings = {"type": "elmo_character_cnn", "embedding_dim": 4, "num_filters": 5, **options}
    return TokenEmbedder.from_params(Params(settings), vocab=VOCAB)


THE, CAT, A, PADDING = [2, 3, 4, 0], [5, 6, 7, 8], [2, 0, 0, 0], [0, 0, 0, 0]
WORDS = torch.tensor([[THE, CAT, THE], [A, PADDING, PADDING]])


@pytest.mark.parametrize("width", [1, 3, 5])
def test_equals_a_convolution_word_by_word(width):
    encoder = build(width=width)
    found = encoder(WORDS)
    assert found.shape == (2, 3, encoder.get_output_dim())
    # Linear over (character, place) as the kernel of a convolution
    kernel = encoder.filters.weight.view(5, 4, width)
    for row in range(2):
        for column in range(3):
            letters = WORDS[row, column][WORDS[row, column] != 0]
            if not len(letters):
                assert not found[row, column].any()
                continue
            characters = encoder.embedding(letters).t().unsqueeze(0)
            places = F.conv1d(characters, kernel, encoder.filters.bias, padding=width // 2)
            torch.testing.assert_close(found[row, column], places.amax(dim=2).relu()[0])


def test_new_characters():
    encoder = build()
    expected, known = encoder(WORDS), encoder.embedding.weight.detach().clone()
    encoder.extend_vocab(VOCAB)
    assert torch.equal(encoder.embedding.weight, known)
    larger = Vocabulary(counter={"token_characters": dict.fromkeys("abcdefg", 1)})
    last = larger.add_token_to_namespace("z", "token_characters")
    encoder.extend_vocab(larger, extension_pretrained_file=None, model_path="embedder")
    assert torch.equal(encoder.embedding.weight[:-1], known)
    assert torch.equal(encoder(WORDS), expected)
    assert encoder(torch.tensor([[[last, 0]]])).shape == (1, 1, 5)
    assert encoder.embedding.weight.requires_grad


def test_equal_words_are_computed_once_and_share_their_gradient():
    encoder = build()
    rows = []
    encoder.filters.register_forward_pre_hook(lambda _, inputs: rows.append(inputs[0].size(0)))
    encoder(WORDS)[0, [0, 2]].sum().backward()
    assert rows == [4]
    twice = encoder.filters.weight.grad.clone()
    encoder.zero_grad()
    encoder(torch.tensor([[THE]])).sum().backward()
    torch.testing.assert_close(twice, 2 * encoder.filters.weight.grad)


def test_even_width():
    with pytest.raises(ConfigurationError, match="width is 2, expected an odd number"):
        build(width=2)
