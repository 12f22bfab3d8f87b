from argparse import ArgumentParser, ArgumentTypeError

import pytest

from elmo_tasks.commands.base import (
    add_archive_argument,
    add_batch_arguments,
    add_text_argument,
    positive,
)


@pytest.mark.parametrize("text", ["1", "007", "2048"])
def test_positive_numbers(text):
    assert positive(text) == int(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1e3", "", " 1", "many"])
def test_what_counts_nothing(text):
    with pytest.raises(ArgumentTypeError) as caught:
        positive(text)
    assert str(caught.value) == f"found {text!r}, expected a positive whole number"


def test_shared_arguments():
    parser = ArgumentParser()
    add_archive_argument(parser, "archives", nargs="+")
    add_text_argument(parser, metavar="TEXT")
    add_batch_arguments(parser, size=7, of="sentences")
    parsed = vars(parser.parse_args(["one", "two", "text"]))
    assert parsed == {"archives": ["one", "two"], "input": "text", "batch_size": 7, "cuda_device": -1}
    parsed = vars(parser.parse_args(["one", "text", "--batch-size", "3", "--cuda-device", "1"]))
    assert (parsed["archives"], parsed["batch_size"], parsed["cuda_device"]) == (["one"], 3, 1)
    assert "sentences at once" in parser.format_help()
