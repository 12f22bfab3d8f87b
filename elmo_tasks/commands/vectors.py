"""
`allennlp elmo vectors word2vec|svd|elmo`: one vector a word, trained on a text for comparison with ELMo, or
ELMo's own.
"""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import BilmArguments, ContextArguments
from elmo_tasks.commands.base import (
    Verb,
    VerbGroup,
    flag,
    number,
    option,
    positional,
    positive,
    seed,
    text_argument,
)
from elmo_tasks.commands.staging import copy_corpus, staged_file
from elmo_tasks.common.progress import progress
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.vectors import DEFAULTS, train_table, write_table
from elmo_tasks.vectors.encoder import BiLmEncoder
from elmo_tasks.vectors.training import frequent_words

METHODS = tuple(DEFAULTS)
_WORD2VEC, _SVD = DEFAULTS["word2vec"], DEFAULTS["svd"]

not_negative = number(float, "a number, 0 or more", lambda value: 0 <= value < math.inf)
above_zero = number(float, "a number above 0", lambda value: 0 < value < math.inf)


def _output_argument() -> Any:
    return positional("OUT", "file to write; gzip if it ends in .gz", type=Path)


@dataclass(frozen=True, kw_only=True)
class StaticArguments:
    """The arguments of both ways to train vectors."""

    input: str = text_argument("TEXT")
    output: Path = _output_argument()
    force: bool = flag("overwrite OUT")
    dim: int = option("numbers of a vector", type=positive, default=_WORD2VEC["dim"])
    window: int = option("words on each side, at most", type=positive, default=_WORD2VEC["window"])
    min_count: int = option(
        "words that occur less often are left out", type=positive, default=_WORD2VEC["min_count"]
    )
    lowercase: bool = flag("lower-case the text")
    seed: int = option("random seed", type=seed, default=_WORD2VEC["seed"])


@dataclass(frozen=True, kw_only=True)
class Word2VecArguments(StaticArguments):
    """The arguments of `vectors word2vec`."""

    negative: int = option("words drawn for each predicted one", type=positive, default=_WORD2VEC["negative"])
    subsample: float = option(
        "Mikolov's t for frequent words; 0: none", type=not_negative, default=_WORD2VEC["subsample"]
    )
    epochs: int = option("passes over the text", type=positive, default=_WORD2VEC["epochs"])


@dataclass(frozen=True, kw_only=True)
class SvdArguments(StaticArguments):
    """The arguments of `vectors svd`."""

    shift: float = option("k: log k is taken off the information", type=above_zero, default=_SVD["shift"])
    smoothing: float = option("exponent of counts of contexts", type=above_zero, default=_SVD["smoothing"])
    eigenvalues: float = option("exponent of singular values", type=not_negative, default=_SVD["eigenvalues"])


Static = TypeVar("Static", bound=StaticArguments)


class TrainVectors(Verb[Static]):
    """A verb that trains vectors; its name is that of the method."""

    def run(self, arguments: Static) -> None:
        train_file(
            self.name,
            arguments.input,
            arguments.output,
            lowercase=arguments.lowercase,
            force=arguments.force,
            **{name: getattr(arguments, name) for name in DEFAULTS[self.name]},
        )


class Word2Vec(TrainVectors[Word2VecArguments]):
    """The verb `vectors word2vec`."""

    name = "word2vec"
    help = "skip-gram with negative sampling"
    description = "Word2Vec: skip-gram with negative sampling (Mikolov et al. 2013), by gensim."
    arguments = Word2VecArguments


class Svd(TrainVectors[SvdArguments]):
    """The verb `vectors svd`."""

    name = "svd"
    help = "decomposed counts of words near each other"
    description = """Truncated singular value decomposition of the positive pointwise mutual information of
        words and their neighbours (Levy, Goldberg and Dagan 2015), by SciPy."""
    arguments = SvdArguments


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
    lowercase : lower-case the text.
    force : overwrite `output`.
    """
    with staged_file(output, force=force) as path:
        text = copy_corpus(source, path.parent, skip_empty=True)
        table = train_table(method, CorpusSentences(text, lowercase=lowercase), **settings)
        write_table(path, table)
    print(f"{output}: {len(table.words):,} words, {table.vectors.shape[1]} dimensions")


@dataclass(frozen=True, kw_only=True)
class ElmoVectorsArguments:
    """The arguments of `vectors elmo`."""

    input: str = text_argument("WORDS")
    output: Path = _output_argument()
    force: bool = flag("overwrite OUT")
    layer: str = option(
        "layer of the biLM: a number, 0 for the token layer, or average",
        type=lambda text: f"layer {text}" if text.isdecimal() else text,
        default="average",
    )
    min_count: int = option("words that occur less often in WORDS are left out", type=positive, default=1)
    lowercase: bool = flag("lower-case WORDS")
    contexts: ContextArguments
    bilm: BilmArguments


class ElmoVectors(Verb[ElmoVectorsArguments]):
    """The verb `vectors elmo`."""

    name = "elmo"
    help = "a biLM's vectors of words alone, or averaged over contexts"
    description = """Writes the vectors that a biLM gives each word of a text: as a sentence of its own, or
        averaged over its occurrences in --contexts, which may be the same text. A word that never stands
        there is left out, and so is one that a biLM of words does not know."""
    arguments = ElmoVectorsArguments

    def run(self, arguments: ElmoVectorsArguments) -> None:
        """
        Writes the vectors, and prints how many they are.

        # Raises
        `ConfigurationError`: the biLM has no such layer, no word is frequent enough or has a vector; and
        whatever reading and writing the files raises.
        """
        with staged_file(arguments.output, force=arguments.force) as path:
            text = copy_corpus(arguments.input, path.parent, skip_empty=True)
            sentences = CorpusSentences(text, lowercase=arguments.lowercase)
            words = list(frequent_words(sentences, arguments.min_count))
            encoder = BiLmEncoder(bilm=arguments.bilm.read(), mixes={}, only=arguments.layer)
            (vectors,) = arguments.contexts.word_vectors(encoder, words, path.parent)
            table = vectors.table(words)
            if not table.words:
                raise ConfigurationError(
                    f"found no vector of {len(words):,} words: none is known to the biLM, or stands in "
                    "--contexts"
                )
            write_table(path, table)
        missing = len(words) - len(table.words)
        left_out = f"; {missing:,} without a vector" if missing else ""
        print(
            f"{arguments.output}: {len(table.words):,} words, {table.vectors.shape[1]} dimensions{left_out}"
        )


class CorpusSentences:
    """The words of each line; each pass over them shows its progress."""

    def __init__(self, text: Corpus, *, lowercase: bool) -> None:
        self._text = text
        self._lowercase = lowercase

    def __iter__(self) -> Iterator[list[str]]:
        lines = progress(self._text, total=len(self._text), work="text", unit="lines")
        return (line.lower().split() if self._lowercase else line.split() for line in lines)


VECTORS = VerbGroup(
    name="vectors",
    help="One vector a word: Word2Vec, SVD, or ELMo's own.",
    description="""Trains static word vectors on a text, one tokenised sentence a line, or takes the vectors
        that a biLM gives its words, and writes them as text, as word2vec does. The key pretrained_file of an
        embedding, the key input_vectors of elmo_bilm, the option --vectors of other verbs and gensim read
        them.""",
    title="Methods",
    verbs=(Word2Vec(), Svd(), ElmoVectors()),
)
