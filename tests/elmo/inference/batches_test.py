import itertools

from elmo_tasks.common.batches import batch_sizes, batches


def test_as_many_as_fit_padding_included():
    assert list(batches(["a", "bb", "c", "dddd", "eeeee", "", "f"], len, 4)) == [
        ["a", "bb"],
        ["c"],
        ["dddd"],
        ["eeeee"],
        ["", "f"],
    ]
    assert list(batches([], len, 4)) == []


def test_without_padding():
    assert list(batch_sizes([1, 1, 2, 9, 9, 4, 5], 9, padded=False)) == [3, 1, 1, 2]


def test_none_is_much_shorter_than_the_longest():
    lengths = [50, 40, 26, 24, 7, 6, 3, 2, 1]
    assert list(batch_sizes(lengths, 4096, least=0.5)) == [3, 1, 2, 2, 1]


def test_reads_one_item_ahead():
    numbers = itertools.count()
    first = next(batches((("word " * 2).split() for _ in numbers), len, 8))
    assert len(first) == 4
    assert next(numbers) == 5
