import torch

from elmo_tasks.squad.model import NoAnswerHead

LENGTHS = (4, 1, 6)


def head() -> NoAnswerHead:
    torch.manual_seed(1)
    return NoAnswerHead(dim=5, start_dim=3, end_dim=2)


def inputs() -> list[torch.Tensor]:
    """Layers, log probabilities of starts and ends, and the mask, of passages that are padded."""
    torch.manual_seed(2)
    mask = torch.arange(max(LENGTHS)) < torch.tensor(LENGTHS).unsqueeze(1)
    layers = [torch.randn(*mask.shape, size) for size in (5, 3, 2)]
    places = [torch.randn(mask.shape).masked_fill(~mask, -torch.inf).log_softmax(1) for _ in range(2)]
    return [*layers, *places, mask]


def test_section_3_3():
    """One passage after the other, without its padding."""
    built = head()
    scores = built(*inputs())
    assert scores.shape == (len(LENGTHS),)
    merged, starts, ends, start, end, _ = inputs()
    for row, length in enumerate(LENGTHS):
        own = torch.stack([built.attention(token)[0] for token in merged[row, :length]]).exp()
        summaries = (
            sum(weight * token for weight, token in zip(weights[:length], layer[row], strict=False))
            for weights, layer in (
                (own / own.sum(), merged),
                (start[row].exp(), starts),
                (end[row].exp(), ends),
            )
        )
        hidden = built.hidden(torch.cat(list(summaries))).clamp(min=0)
        torch.testing.assert_close(scores[row], built.output(hidden)[0])


def test_padding_has_no_part_in_the_score():
    built, given = head(), inputs()
    expected = built(*given)
    for layer in given[:3]:
        layer[~given[5]] = 1e3
    torch.testing.assert_close(built(*given), expected)


def test_every_parameter_learns():
    built = head()
    built(*inputs()).sum().backward()
    # A number that all tokens have in common changes no softmax.
    others = {name: part for name, part in built.named_parameters() if name != "attention.bias"}
    assert all(part.grad.isfinite().all() and part.grad.any() for part in others.values())
