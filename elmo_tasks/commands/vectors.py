"""
`allennlp elmo vectors word2vec|svd|elmo`: one vector a word, trained on a text for comparison with ELMo, or
ELMo's own.
"""

import argparse
import math
from collections.abc import Iterator
from pathlib import Path

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import add_bilm_arguments, add_context_arguments, read_bilm, word_vectors
from elmo_tasks.commands.base import DEFAULT, Subparsers, Verb, add_text_argument, positive, seed
from elmo_tasks.commands.staging import add_output_argument, copy_corpus, staged_file
from elmo_tasks.common.progress import progress
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.vectors import DEFAULTS, train_table, write_table
from elmo_tasks.vectors.encoder import BiLmEncoder
from elmo_tasks.vectors.training import frequent_words

METHODS = tuple(DEFAULTS)
ELMO = "elmo"


class Vectors(Verb):
    """See `elmo_tasks.vectors`."""

    name = "vectors"
    help = "One vector a word: Word2Vec, SVD, or ELMo's own."
    description = """Trains static word vectors on a text, one tokenised sentence a line, or takes those that
        a biLM gives its words, and writes them as text, as word2vec does. The key pretrained_file of an
        embedding, the key input_vectors of elmo_bilm, the option --vectors of other verbs and gensim read
        them."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        methods = parser.add_subparsers(title="Methods", metavar="METHOD", required=True)
        word2vec = _add_method(
            methods,
            "word2vec",
            "skip-gram with negative sampling",
            "Word2Vec: skip-gram with negative sampling (Mikolov et al. 2013), by gensim.",
        )
        word2vec.add_argument(
            "--negative", type=positive, help=f"words drawn for each predicted one ({DEFAULT})"
        )
        word2vec.add_argument(
            "--subsample", type=not_negative, help=f"Mikolov's t for frequent words; 0: none ({DEFAULT})"
        )
        word2vec.add_argument("--epochs", type=positive, help=f"passes over the text ({DEFAULT})")
        svd = _add_method(
            methods,
            "svd",
            "decomposed counts of words near each other",
            """Truncated singular value decomposition of the positive pointwise mutual information of words
                and their neighbours (Levy, Goldberg and Dagan 2015), by SciPy.""",
        )
        svd.add_argument(
            "--shift", type=above_zero, help=f"k: log k is taken off the information ({DEFAULT})"
        )
        svd.add_argument("--smoothing", type=above_zero, help=f"exponent of counts of contexts ({DEFAULT})")
        svd.add_argument("--eigenvalues", type=not_negative, help=f"exponent of singular values ({DEFAULT})")
        for name, method in (("word2vec", word2vec), ("svd", svd)):
            method.set_defaults(method=name, **DEFAULTS[name])
        _add_elmo(methods)

    def run(self, arguments: argparse.Namespace) -> None:
        if arguments.method == ELMO:
            encode_words(arguments)
            return
        train_file(
            arguments.method,
            arguments.input,
            arguments.output,
            lowercase=arguments.lowercase,
            force=arguments.force,
            **{name: getattr(arguments, name) for name in DEFAULTS[arguments.method]},
        )


def train_file(
    method: str,
    source: str,
    output: Path,
    *,
    lowercase: bool = False,
    force: bool = False,
    **settings: int | float,
) -> None:
    """
    Trains vectors on a text, writes them to `output`, and prints how many they are.

    # Parameters

    method, settings : see `train_table`.
    source : the text, as `copy_corpus` takes it.
    lowercase : whether the text is lower-cased.
    force : whether `output` may be overwritten.
    """
    with staged_file(output, force=force) as path:
        text = copy_corpus(source, path.parent, skip_empty=True)
        table = train_table(method, CorpusSentences(text, lowercase=lowercase), **settings)
        write_table(path, table)
    print(f"{output}: {len(table.words):,} words, {table.vectors.shape[1]} dimensions")


def encode_words(arguments: argparse.Namespace) -> None:
    """
    Writes the vectors that a biLM gives the words of a text, and prints how many they are.

    # Raises
    `ConfigurationError`: the biLM has no such layer, no word is frequent enough or has a vector; and whatever
    reading and writing the files raises.
    """
    with staged_file(arguments.output, force=arguments.force) as path:
        text = copy_corpus(arguments.input, path.parent, skip_empty=True)
        sentences = CorpusSentences(text, lowercase=arguments.lowercase)
        words = list(frequent_words(sentences, arguments.min_count))
        encoder = BiLmEncoder(bilm=read_bilm(arguments), mixes={}, only=arguments.layer)
        (vectors,) = word_vectors(encoder, words, arguments, path.parent)
        table = vectors.table(words)
        if not table.words:
            raise ConfigurationError(
                f"found no vector of {len(words):,} words: none is known to the biLM, or stands in --contexts"
            )
        write_table(path, table)
    left_out = (
        f"; {len(words) - len(table.words):,} without a vector" if len(words) > len(table.words) else ""
    )
    print(f"{arguments.output}: {len(table.words):,} words, {table.vectors.shape[1]} dimensions{left_out}")


class CorpusSentences:
    """The words of each line; each pass over them shows its progress."""

    def __init__(self, text: Corpus, *, lowercase: bool) -> None:
        self._text = text
        self._lowercase = lowercase

    def __iter__(self) -> Iterator[list[str]]:
        lines = progress(self._text, total=len(self._text), work="text", unit="lines")
        return (line.lower().split() if self._lowercase else line.split() for line in lines)


def not_negative(text: str) -> float:
    """The type of an argument that is 0 or more."""
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


def _add_elmo(methods: Subparsers) -> None:
    parser: argparse.ArgumentParser = methods.add_parser(
        ELMO,
        help="what a biLM gives words alone, or averaged over contexts",
        description="""The vectors that a biLM gives each word of a text: as a sentence of its own, or
            averaged over its occurrences in --contexts, which may be the same text. A word that never stands
            there is left out, and so is one that a biLM of words does not know.""",
    )
    add_text_argument(parser, metavar="WORDS")
    add_output_argument(parser, metavar="OUT", help="file to write; gzip if it ends in .gz")
    parser.add_argument(
        "--layer",
        type=lambda text: f"layer {text}" if text.isdecimal() else text,
        default="average",
        help="of the biLM: a number, 0 for the token layer, or average",
    )
    parser.add_argument(
        "--min-count", type=positive, default=1, help="words that occur less often in WORDS are left out"
    )
    parser.add_argument("--lowercase", action="store_true", help="lower-case WORDS")
    add_context_arguments(parser)
    add_bilm_arguments(parser)
    parser.set_defaults(method=ELMO)


def _add_method(methods: Subparsers, name: str, short: str, description: str) -> argparse.ArgumentParser:
    """The parser of a method, with the arguments that all methods have."""
    parser: argparse.ArgumentParser = methods.add_parser(name, help=short, description=description)
    add_text_argument(parser, metavar="TEXT")
    add_output_argument(parser, metavar="OUT", help="file to write; gzip if it ends in .gz")
    parser.add_argument("--dim", type=positive, help=f"numbers of a vector ({DEFAULT})")
    parser.add_argument("--window", type=positive, help=f"words on each side, at most ({DEFAULT})")
    parser.add_argument(
        "--min-count", type=positive, help=f"words that occur less often are left out ({DEFAULT})"
    )
    parser.add_argument("--lowercase", action="store_true", help="lower-case the text")
    parser.add_argument("--seed", type=seed, help=f"of what is drawn at random ({DEFAULT})")
    return parser
