"""
`allennlp elmo calibrate`: a state for sentences to start from, out of real text.

The original biLM was trained with a state that it carried from sentence to sentence: zeros are a start that
it hardly ever saw. The mean of the states between the sentences of a text is a start that it knows.
"""

import argparse
import time
from itertools import pairwise
from pathlib import Path

import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import add_bilm_arguments, read_bilm
from elmo_tasks.commands.base import Verb, add_text_argument, positive
from elmo_tasks.commands.staging import add_output_argument, copy_corpus, staged_file
from elmo_tasks.common.progress import progress
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.model.weight_file import write_initial_state
from elmo_tasks.embedding.corpus import Corpus, NumberedSentence, batches_by_length, padded_ids

BATCH_TOKENS = 2048
"""Positions of a batch at most; lanes that do not fit are run in another."""


class Calibrate(Verb):
    """See `mean_start`."""

    name = "calibrate"
    help = "An initial LSTM state, from a text."
    description = """Runs the biLM over a text, one tokenised sentence a line, with its state carried from
        sentence to sentence, and writes the mean of the states that sentences start from. Empty lines are
        left out. `embed --initial-state OUT` and the key initial_state of a config's elmo block read it."""

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        add_text_argument(parser, metavar="TEXT")
        add_output_argument(parser, metavar="OUT", help="HDF5 file to write")
        add_bilm_arguments(parser)
        parser.add_argument(
            "--lanes",
            type=positive,
            default=32,
            help="parts of the text that are run side by side, each from zeros",
        )
        parser.add_argument("--max-sentences", type=positive, help="read so many at most (default: all)")

    def run(self, arguments: argparse.Namespace) -> None:
        began = time.monotonic()
        output: Path = arguments.output
        with staged_file(output, force=arguments.force) as path:
            bilm = read_bilm(arguments)
            limit = arguments.max_sentences
            text = copy_corpus(arguments.input, path.parent, skip_empty=True, limit=limit)
            mean, starts = mean_start(bilm, text, lanes=arguments.lanes)
            attributes: dict[str, str | int] = {
                "sentences": len(text),
                "starts": starts,
                "digest": bilm.digest(),
            }
            write_initial_state(path, *mean, attributes=attributes)
        seconds = time.monotonic() - began
        print(
            f"{output}: the mean of {starts:,} starts; {len(text):,} sentences, {text.tokens:,} tokens, "
            f"{text.tokens / seconds:,.0f} tokens/s, {seconds:.1f} s"
        )


def mean_start(bilm: FrozenBiLm, text: Corpus, *, lanes: int) -> tuple[LstmState, int]:
    """
    The mean of the states that sentences start from, and of how many.

    The text is cut into `lanes` consecutive parts, or fewer, so that each has two sentences. The first of a
    lane starts from zeros, and does not count. What a sentence hands on is the state behind its last step:
    `</S>` in the forward and `<S>` in the backward direction.

    *Shape:* `(layers, 2 directions, projection_dim)` and `(layers, 2 directions, dim)`.

    # Raises
    `ConfigurationError`: fewer than 2 sentences.
    """
    if len(text) < 2:
        raise ConfigurationError(
            f"found {len(text)} sentences, expected 2 or more: a start needs one before it"
        )
    lanes = min(lanes, len(text) // 2)
    bounds = [lane * len(text) // lanes for lane in range(lanes + 1)]
    bar = progress(work="calibrate", total=text.tokens, unit="tokens", unit_scale=True)
    with bar, torch.no_grad():
        state = bilm.initial_state(lanes)
        sums = [torch.zeros(*part.shape[:2], part.shape[3], dtype=torch.float64) for part in state]
        # No lane is longer than the last.
        for step in range(bounds[-1] - bounds[-2]):
            # Which lanes have a sentence at this step, and in which line
            lines = {
                lane: first + step for lane, (first, end) in enumerate(pairwise(bounds)) if first + step < end
            }
            if step:
                running = list(lines)
                for total, part in zip(sums, state, strict=True):
                    total += part[:, :, running].sum(dim=2, dtype=torch.float64).cpu()
            for batch in batches_by_length(
                (NumberedSentence(lane, text[line].split()) for lane, line in lines.items()), BATCH_TOKENS
            ):
                _advance(bilm, batch, state)
                bar.update(sum(len(words) for _, words in batch))
    starts = len(text) - lanes
    return LstmState(*(total / starts for total in sums)), starts


def _advance(bilm: FrozenBiLm, batch: list[NumberedSentence], state: LstmState) -> None:
    """Takes the lanes of `batch` over their next sentence, and puts what they end with into `state`."""
    rows = [sentence.number for sentence in batch]
    ids = padded_ids(batch, bilm)
    _, after = bilm(ids, LstmState(*(part[:, :, rows] for part in state)))
    for part, new in zip(state, after, strict=True):
        part[:, :, rows] = new
