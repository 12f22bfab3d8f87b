"""
The verb `calibrate`: an initial state of the LSTMs, from real text.

The original biLM carried its state from sentence to sentence in training, and hardly ever started from zeros.
The mean of the states between the sentences of a text is a start that it knows.
"""

import time
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import torch
from allennlp.common.checks import ConfigurationError

from elmo_tasks.commands.arguments import BilmArguments
from elmo_tasks.commands.base import Positive, Verb, flag, option, positional, text_argument
from elmo_tasks.commands.partial_outputs import partial_file
from elmo_tasks.commands.texts import copy_corpus
from elmo_tasks.common.progress import progress
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.model.weight_file import write_initial_state
from elmo_tasks.embedding.batches import BATCH_TOKENS, NumberedSentence, batches_by_length, padded_ids
from elmo_tasks.embedding.corpus import Corpus


@dataclass(frozen=True, kw_only=True)
class Calibrate(Verb):
    name = "calibrate"
    help = "An initial LSTM state, from a text."
    description = """Runs the biLM over a text, one tokenised sentence a line, with its state carried from
        sentence to sentence, and writes the mean of the states that sentences start from. Empty lines are
        left out. `embed --initial-state OUT` and the key initial_state of a config's elmo block read it."""

    input: str = text_argument("TEXT")
    output: Path = positional("OUT", "HDF5 file to write")
    force: bool = flag("overwrite OUT")
    bilm: BilmArguments
    lanes: Positive = option("parts of the text that are run in parallel, each from zeros", 32)
    max_sentences: Positive | None = option("the largest number of lines to read (default: all)")

    def run(self) -> None:
        began = time.monotonic()
        with partial_file(self.output, force=self.force) as path:
            bilm = self.bilm.read()
            limit = self.max_sentences
            text = copy_corpus(self.input, path.parent, skip_empty=True, limit=limit)
            mean, starts = mean_start(bilm, text, lanes=self.lanes)
            counts = {"sentences": len(text), "starts": starts}
            write_initial_state(path, *mean, attributes={**counts, "digest": bilm.digest()})
        seconds = time.monotonic() - began
        print(
            f"{self.output}: the mean of {starts:,} starts; {len(text):,} sentences, "
            f"{text.tokens:,} tokens, {text.tokens / seconds:,.0f} tokens/s, {seconds:.1f} s"
        )


def mean_start(bilm: FrozenBiLm, text: Corpus, *, lanes: int) -> tuple[LstmState, int]:
    """
    Returns the mean of the states that sentences start from, and the number of these states.

    The text is cut into `lanes` consecutive parts, or fewer, so that each has two sentences. The first
    sentence of a lane starts from zeros, and does not count. A sentence hands on the state after its last
    step: `</S>` in the forward and `<S>` in the backward direction.

    *Shape:* `(layers, 2 directions, projection_dim)` and `(layers, 2 directions, dim)`.
    """
    if len(text) < 2:
        raise ConfigurationError("the text needs two sentences or more: a start follows a sentence")
    lanes = min(lanes, len(text) // 2)
    bounds = [lane * len(text) // lanes for lane in range(lanes + 1)]
    bar = progress(work="calibrate", total=text.tokens, unit="tokens", unit_scale=True)
    with bar, torch.no_grad():
        state = bilm.initial_state(lanes)
        sums = [torch.zeros(*part.shape[:2], part.shape[3], dtype=torch.float64) for part in state]
        # No lane is longer than the last.
        for step in range(bounds[-1] - bounds[-2]):
            # The lanes that have a sentence at this step, and the line of each
            lines = {
                lane: first + step for lane, (first, end) in enumerate(pairwise(bounds)) if first + step < end
            }
            if step:
                running = list(lines)
                for total, part in zip(sums, state, strict=True):
                    total += part[:, :, running].sum(dim=2, dtype=torch.float64).cpu()
            # Lanes that do not fit into one batch are run in another.
            for batch in batches_by_length(
                (NumberedSentence(lane, text[line].split()) for lane, line in lines.items()), BATCH_TOKENS
            ):
                _advance(bilm, batch, state)
                bar.update(sum(len(words) for _, words in batch))
    starts = len(text) - lanes
    return LstmState(*(total / starts for total in sums)), starts


def _advance(bilm: FrozenBiLm, batch: list[NumberedSentence], state: LstmState) -> None:
    """Takes the lanes of `batch` over their next sentence, and writes the state after it into `state`."""
    rows = [sentence.number for sentence in batch]
    ids = padded_ids(batch, bilm)
    _, after = bilm(ids, LstmState(*(part[:, :, rows] for part in state)))
    for part, new in zip(state, after, strict=True):
        part[:, :, rows] = new
