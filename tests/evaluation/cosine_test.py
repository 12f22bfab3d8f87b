import torch

from elmo_tasks.evaluation.similarity import round_cosines


def test_only_what_rounding_makes_is_taken_away():
    cosines = torch.tensor([[1.0, 1 + 1e-7], [0.1234561, 0.1234562], [-0.5, -0.500002]])
    rounded = round_cosines(cosines)
    assert (rounded[:, 0] == rounded[:, 1]).tolist() == [True, True, False]
    torch.testing.assert_close(rounded, cosines, atol=5e-7, rtol=0)


def test_equal_vectors_have_equal_cosines():
    """Whatever the length of a vector."""
    torch.manual_seed(1)
    vector, other = torch.randn(2, 1024)
    cosines = torch.cosine_similarity(torch.rand(1000, 1) * vector, other, dim=1)
    assert len(cosines.unique()) > 1
    assert len(round_cosines(cosines).unique()) == 1
