from argparse import ArgumentParser, ArgumentTypeError

import pytest

from elmo_tasks.commands.base import add_archive_argument, add_text_argument, positive, seed


@pytest.mark.parametrize("text", ["1", "007", "2048"])
def test_positive_numbers(text):
    assert positive(text) == int(text)


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "1e3", "", " 1", "many"])
def test_what_counts_nothing(text):
    with pytest.raises(ArgumentTypeError) as caught:
        positive(text)
    assert str(caught.value) == f"found {text!r}, expected a positive whole number"


def test_seeds():
    assert [seed("0"), seed("4294967295")] == [0, 4294967295]
    for text in ("-1", "4294967296", "1.5", ""):
        with pytest.raises(ArgumentTypeError, match=f"found '{text}', expected a whole number from 0 to"):
            seed(text)


def test_shared_arguments():
    parser = ArgumentParser()
    add_archive_argument(parser, "archives", nargs="+")
    add_text_argument(parser, metavar="TEXT")
    parsed = vars(parser.parse_args(["one", "two", "text"]))
    assert parsed == {"archives": ["one", "two"], "input": "text"}
    assert "ARCHIVE [ARCHIVE ...] TEXT" in " ".join(parser.format_help().split())
