"""`allennlp elmo neighbors`: the nearest occurrences of a word in a sentence (the paper's Table 4)."""

import argparse

from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import add_vector_arguments, read_bilm_encoder, read_static_vectors
from elmo_tasks.commands.base import Source, Verb, positive
from elmo_tasks.commands.results import add_output_arguments, open_results
from elmo_tasks.commands.staging import copy_corpus
from elmo_tasks.common.progress import progress
from elmo_tasks.common.table import Table
from elmo_tasks.embedding.corpus import Corpus
from elmo_tasks.evaluation.nearest import Occurrence, nearest_tokens, text_blocks

COLUMNS = ("query", "vectors", "rank", "cosine", "line", "neighbor")


class Neighbors(Verb):
    """See `evaluation.nearest`."""

    name = "neighbors"
    help = "Nearest neighbours of a word in context."
    description = """The tokens of a text, in their sentences, that are nearest to a word in its sentence, by
        the cosine of their vectors: for each layer of a biLM, their average and given mixes; and the words
        that are nearest by static vectors. The search is exact, and memory does not grow with the text."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("word", metavar="WORD", help="as it stands in the sentence")
        parser.add_argument(
            "--corpus",
            type=Source,
            metavar="TEXT",
            required=True,
            help="text, one tokenised sentence a line, gzip or not: a file, folder, pattern or URL, or - for "
            "stdin",
        )
        parser.add_argument(
            "--sentence",
            action="append",
            default=[],
            metavar="TEXT",
            help="tokenised, with WORD in it, of which the first counts; may be repeated",
        )
        parser.add_argument(
            "--line",
            action="append",
            default=[],
            type=positive,
            help="of TEXT, with WORD in it, from 1; may be repeated (default, if there is no --sentence: the "
            "first that has WORD)",
        )
        parser.add_argument("--top", type=positive, default=5, help="so many neighbours")
        add_vector_arguments(parser)
        add_output_arguments(parser, picture=False)

    def run(self, arguments: argparse.Namespace) -> None:
        word: str = arguments.word
        with open_results(arguments) as output:
            text = copy_corpus(arguments.corpus, output.folder)
            queries = _queries(word, arguments.sentence, arguments.line, text, arguments.corpus)
            encoder, static = read_bilm_encoder(arguments), read_static_vectors(arguments)
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
            output.write(table)


def _queries(
    word: str, sentences: list[str], lines: list[int], text: Corpus, corpus: str
) -> list[Occurrence]:
    """
    # Raises
    `ConfigurationError`: a sentence or a line without the word, or a line that the text has not.
    """
    sources = [("--sentence", sentence) for sentence in sentences]
    for line in lines:
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
