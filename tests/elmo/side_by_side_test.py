import threading

import pytest
import torch

from elmo_tasks.elmo.side_by_side import side_by_side


@pytest.fixture(params=[1, 2, 4])
def threads(request):
    before = torch.get_num_threads()
    torch.set_num_threads(request.param)
    yield request.param
    torch.set_num_threads(before)


def test_both_results_in_order(threads):
    assert side_by_side(lambda: "first", lambda: "second") == ("first", "second")
    assert torch.get_num_threads() == threads


def test_each_has_half_of_the_threads(threads):
    if threads > 1:
        found = side_by_side(torch.get_num_threads, torch.get_num_threads)
        assert found == (threads // 2, threads // 2)


def test_new_threads_are_not_held_back(threads):
    side_by_side(lambda: None, lambda: None)
    found = []
    thread = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    thread.start()
    thread.join()
    assert found == [threads]


def test_no_graph_is_built():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    weight = torch.ones(2, requires_grad=True)
    assert not any(result.requires_grad for result in side_by_side(lambda: weight * 2, lambda: weight * 3))
    torch.set_num_threads(before)


def test_errors_come_through(threads):
    def fails():
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        side_by_side(fails, lambda: None)
