"""`allennlp elmo neighbors`: the nearest occurrences of a word in a sentence (the paper's Table 4)."""

from dataclasses import dataclass

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import VectorArguments
from elmo_tasks.commands.base import Source, Verb, option, positional, positive
from elmo_tasks.commands.results import ResultArguments
from elmo_tasks.commands.staging import copy_corpus
from elmo_tasks.common.progress import progress
from elmo_tasks.common.table import Table
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.evaluation.nearest import Occurrence, nearest_tokens, text_blocks

COLUMNS = ("query", "vectors", "rank", "cosine", "line", "neighbor")


@dataclass(frozen=True, kw_only=True)
class NeighborsArguments:
    """The arguments of `neighbors`."""

    word: str = positional("WORD", "the word, as it is written in the sentence")
    corpus: str = option(
        "text, one tokenised sentence a line, gzip or not: a file, folder, pattern or URL, or - for stdin",
        type=Source,
        metavar="TEXT",
        required=True,
    )
    sentence: list[str] = option(
        "a tokenised sentence with WORD, of which the first counts; may be repeated",
        action="append",
        default=[],
        metavar="TEXT",
    )
    line: list[int] = option(
        "the number of a line of TEXT with WORD, from 1; may be repeated (default, if there is no "
        "--sentence: the first that has WORD)",
        action="append",
        default=[],
        type=positive,
    )
    top: int = option("the number of neighbours", type=positive, default=5)
    vectors: VectorArguments
    results: ResultArguments


class Neighbors(Verb[NeighborsArguments]):
    """The verb `neighbors`; see `evaluation.nearest`."""

    name = "neighbors"
    help = "Nearest neighbours of a word in context."
    description = """Shows the tokens of a text, in their sentences, that are nearest to a word in its
        sentence, by the cosine of their vectors: for each layer of a biLM, their average and given mixes; and
        the words that are nearest by static vectors. The search is exact, and memory does not grow with the
        text."""
    arguments = NeighborsArguments

    def run(self, arguments: NeighborsArguments) -> None:
        word = arguments.word
        with arguments.results.writer() as writer:
            text = copy_corpus(arguments.corpus, writer.folder)
            queries = _queries(arguments, text)
            encoder, static = arguments.vectors.encoders()
            bar = progress(text, total=len(text), work="neighbors", unit="lines")
            nearest = nearest_tokens(encoder, queries, text_blocks(encoder, bar), count=arguments.top)
            table = Table(COLUMNS)
            for query, by_row in zip(queries, nearest, strict=True):
                for name, neighbors in zip(encoder.names, by_row, strict=True):
                    for rank, (line, position, cosine) in enumerate(neighbors, start=1):
                        token = Occurrence(text[line].split(), position)
                        table.add(query.marked(), name, rank, cosine, line + 1, token.marked())
            for vectors in static:
                if not vectors.known([word]).all():
                    table.add(word, vectors.names[0], None, None, None, "(unknown)")
                else:
                    for rank, (other, cosine) in enumerate(vectors.nearest(word, arguments.top), start=1):
                        table.add(word, vectors.names[0], rank, cosine, None, other)
            writer.write(table)


def _queries(arguments: NeighborsArguments, text: Corpus) -> list[Occurrence]:
    """
    Returns the word in each of its sentences.

    # Raises
    `ConfigurationError`: a sentence or a line without the word, or a line that the text does not have.
    """
    word, corpus = arguments.word, arguments.corpus
    sources = [("--sentence", sentence) for sentence in arguments.sentence]
    for line in arguments.line:
        if line > len(text):
            raise ConfigurationError(
                f"--line: found {line}, expected 1 to {len(text):,}, the lines of {corpus}"
            )
        sources.append((f"--line {line}", text[line - 1]))
    if not sources:
        first = next((line for line in text if word in line.split()), None)
        if first is None:
            raise ConfigurationError(f"{corpus}: found no line with {word!r}, expected one, or a --sentence")
        sources.append(("the first line", first))
    queries = []
    for source, sentence in sources:
        words = sentence.split()
        if word not in words:
            raise ConfigurationError(
                f"{source}: found {sentence!r}, expected a sentence with the word {word!r}"
            )
        queries.append(Occurrence(words, words.index(word)))
    return queries
