"""Other formats in the place of a text of one tokenised sentence a line."""

import logging

import pytest

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.text_checks import WarnedOnce, checked_sentences
from tests.errors import error_of, mentions

CONLLU = "1\tA\ta\tDET\tDT\t_\t2\tdet\t_\t_"


def checked(*lines: str) -> list[str]:
    return [line for _, line in checked_sentences("a.txt", iter(enumerate(lines, start=1)))]


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["# sent_id = 1", CONLLU], "a.txt, line 2: "),
        (["1-2\tdu" + 8 * "\t_"], "a.txt, line 1: "),
        ([">sp|P1|A a protein", "MKTAY"], "a.txt, line 1: "),
        (["#begin document (a); part 000", "a 0 0 It X (2)", "a 0 1 is X -"], "a.txt, line 1: "),
        (["", '{"sentence": "Good ."}', '{"sentence": "Bad ."}'], "a.txt, line 2: "),
        (["-DOCSTART- -X- O", "", "EU NNP B-ORG", "rejects VBZ O", "", "Peter NNP B-PER"], "a.txt, line 3: "),
        (["The cat .\rIt sat .\r"], "a.txt, line 1: "),
    ],
    ids=["CoNLL-U", "a range of CoNLL-U", "FASTA", "CoNLL-2012", "JSON Lines", "CoNLL-2003", "CR"],
)
def test_what_is_refused(lines, message):
    assert error_of(ElmoError, checked, *lines).startswith(message)


@pytest.mark.parametrize(
    ("line", "token"),
    [
        ("<S> The cat . </S>", "<S>"),
        ("<bos> The cat . <eos>", "<bos>"),
        ("The cat . </s>", "</s>"),
        ("[CLS] The cat . [SEP]", "[CLS]"),
        ("The cat . <pad> <PAD>", "<pad>"),
        ("The [UNK] . <unk>", "[UNK]"),
        ("un ##real", "##real"),
        ("a fundament@@ al one", "fundament@@"),
        ("well @-@ known", "@-@"),
        ("\u2581The \u2581c at", "\u2581The"),
        ("A -lrb- small -rrb- cat", "-lrb-"),
        ("It &#39;s R&amp;D", "&#39;s"),
        ("A <br /> b", "<br"),
    ],
)
def test_tokens_that_are_no_words_are_warned_of_once(caplog, line, token):
    path, warn = f"{token}.txt", WarnedOnce()
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert len(list(checked_sentences(path, iter([(1, line), (2, line)]), warn))) == 2
    (record,) = caplog.records
    assert record.getMessage().startswith(f"{path}: {token} ")


@pytest.mark.parametrize(
    ("name", "lines"),
    [("a.csv", ["text,label", "Good .,pos"]), ("b.txt", ["text\tlabel", "Good .\tpos", "Bad .\tneg"])],
)
def test_a_table_is_warned_of(caplog, name, lines):
    """By each reader, whatever another one has read."""
    for _ in range(2):
        assert len(list(checked_sentences(name, iter(enumerate(lines, start=1))))) == len(lines)
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 2
    assert all(mentions(message, name, "table") for message in messages)


def test_a_warning_waits_until_the_log_shows_it(caplog):
    """Validation data are read with the log off first."""
    warn = WarnedOnce()
    for disabled in (logging.WARNING, logging.NOTSET):
        logging.disable(disabled)
        list(checked_sentences("dev.csv", iter([(1, "text,label")]), warn))
    (record,) = caplog.records
    assert mentions(record.getMessage(), "dev.csv", "table")


@pytest.mark.parametrize(
    "lines",
    [
        ["1\t2\t3", "The\tcat\tsat", "> MKTAY", "OK", ">>> x = 1", "print ( x )"],
        ["", "a\rb", "a < s > b", "<sep> a", "s> a </ s>", "## a @@ b", "<x> AT&T; -LRB", "pad unk a@b.c"],
        [*["x"] * 200, CONLLU],
        ['{ "a" : 1 }', "is JSON .", "[ 1 ]"],
        ["by E-mail", "via E-mail", "a B-52"],
        ["Hear , O", "Sing , O", "a b c"],
    ],
    ids=["tabs and signs", "a lone CR", "far below", "about JSON", "like tags", "O"],
)
def test_what_is_a_text(lines, caplog):
    assert checked(*lines) == lines
    assert not caplog.records
