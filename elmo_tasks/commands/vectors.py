"""`allennlp elmo vectors word2vec|svd`: static word vectors trained on a text, for comparison with ELMo."""

import argparse
import math
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from allennlp.common.tqdm import Tqdm

from elmo_tasks.commands.base import Verb, positive
from elmo_tasks.commands.corpus import Corpus, copy_corpus
from elmo_tasks.commands.staging import check_output, staging_folder
from elmo_tasks.vectors import WordTable, ppmi_svd, skip_gram, write_table

METHODS = ("word2vec", "svd")


class Vectors(Verb):
    """See `elmo_tasks.vectors`."""

    name = "vectors"
    help = "Static word vectors of a text."
    description = """Trains static word vectors on a text, one tokenised sentence a line, and writes them as
        text, as word2vec does. The key pretrained_file of an embedding, the key input_vectors of elmo_bilm
        and the option --vectors of other verbs read them."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        methods = parser.add_subparsers(title="Methods", metavar="METHOD", required=True)
        word2vec = methods.add_parser(
            "word2vec",
            help="skip-gram with negative sampling",
            description="Word2Vec: skip-gram with negative sampling (Mikolov et al. 2013), by gensim.",
        )
        _add_common_arguments(word2vec)
        word2vec.add_argument(
            "--negative", type=positive, default=5, help="words drawn for each predicted one"
        )
        word2vec.add_argument(
            "--subsample", type=not_negative, default=1e-3, help="Mikolov's t for frequent words; 0: none"
        )
        word2vec.add_argument("--epochs", type=positive, default=20, help="passes over the text")
        word2vec.set_defaults(train=_word2vec)
        svd = methods.add_parser(
            "svd",
            help="decomposed counts of words near each other",
            description="""Truncated singular value decomposition of the positive pointwise mutual information
                of words and their neighbours (Levy, Goldberg and Dagan 2015), by SciPy.""",
        )
        _add_common_arguments(svd)
        svd.add_argument(
            "--shift", type=above_zero, default=1.0, help="k: log k is taken off the information"
        )
        svd.add_argument("--smoothing", type=above_zero, default=0.75, help="exponent of counts of contexts")
        svd.add_argument("--eigenvalues", type=not_negative, default=0.5, help="exponent of singular values")
        svd.set_defaults(train=_svd)

    @classmethod
    def train(cls, *arguments: str) -> None:
        """As the command with these arguments."""
        parser = argparse.ArgumentParser()
        verb = cls()
        verb.add_arguments(parser)
        verb.run(parser.parse_args(arguments))

    def run(self, arguments: argparse.Namespace) -> None:
        output: Path = arguments.output
        check_output(output, force=arguments.force)
        with staging_folder(output) as folder:
            with copy_corpus(arguments.input, folder, skip_empty=True) as text:
                train: Callable[[TextSentences, argparse.Namespace], WordTable] = arguments.train
                table = train(TextSentences(text, lowercase=arguments.lowercase), arguments)
            write_table(folder / output.name, table)
            os.replace(folder / output.name, output)
        print(f"{output}: {len(table.words):,} words, {table.vectors.shape[1]} dimensions")


class TextSentences:
    """The words of each line; each pass over them shows its progress."""

    def __init__(self, text: Corpus, *, lowercase: bool) -> None:
        self._text = text
        self._lowercase = lowercase

    def __iter__(self) -> Iterator[list[str]]:
        lines = Tqdm.tqdm(self._text, total=len(self._text), desc="text", unit=" lines", delay=2, leave=False)
        return (line.lower().split() if self._lowercase else line.split() for line in lines)


def not_negative(text: str) -> float:
    """The type of an argument from 0 on."""
    number = _number(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number, 0 or more")
    return number


def above_zero(text: str) -> float:
    """The type of an argument above 0."""
    number = _number(text)
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected a number above 0")
    return number


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return math.nan


def _add_common_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "input", metavar="TEXT", help="text, gzip or not: a file, folder, pattern or URL, or - for stdin"
    )
    parser.add_argument("output", metavar="OUT", type=Path, help="file to write; gzip if it ends in .gz")
    parser.add_argument("--dim", type=positive, default=100, help="numbers of a vector")
    parser.add_argument("--window", type=positive, default=5, help="words on each side, at most")
    parser.add_argument(
        "--min-count", type=positive, default=2, help="words that occur less often are left out"
    )
    parser.add_argument("--lowercase", action="store_true", help="lower-case the text")
    parser.add_argument("--seed", type=int, default=13, help="of what is drawn at random")
    parser.add_argument("--force", action="store_true", help="overwrite OUT")


def _word2vec(sentences: TextSentences, arguments: argparse.Namespace) -> WordTable:
    return skip_gram(
        sentences,
        dim=arguments.dim,
        window=arguments.window,
        min_count=arguments.min_count,
        negative=arguments.negative,
        subsample=arguments.subsample,
        epochs=arguments.epochs,
        seed=arguments.seed,
    )


def _svd(sentences: TextSentences, arguments: argparse.Namespace) -> WordTable:
    return ppmi_svd(
        sentences,
        dim=arguments.dim,
        window=arguments.window,
        min_count=arguments.min_count,
        shift=arguments.shift,
        smoothing=arguments.smoothing,
        eigenvalues=arguments.eigenvalues,
        seed=arguments.seed,
    )
