"""
The largest differences between our biLM and the original's published reference outputs, AllenNLP's own
class, and itself in other batches.

    python benchmarks/elmo_parity.py REFERENCE_FOLDER

The folder is laid out as AllenNLP's ELMo test fixture: `options.json`, `lm_weights.hdf5`, `sentences.json`
(three lanes, read side by side with carried state), `lm_embeddings_{0,1,2}.hdf5` (the top of
each lane), `vocab_test.txt` and `elmo_token_embeddings.hdf5` (the token layer of its words).
"""

import json
import random
import sys
from pathlib import Path

import h5py
import numpy as np
import torch
from allennlp.modules.elmo import _ElmoBiLm, batch_to_ids
from allennlp.nn.util import remove_sentence_boundaries

from elmo_tasks.elmo.model.characters import character_ids, padded_character_ids
from elmo_tasks.elmo.sources import read_frozen_bilm, read_options


@torch.no_grad()
def main(folder: Path) -> None:
    files = folder / "options.json", folder / "lm_weights.hdf5"
    ours = read_frozen_bilm(read_options(files[0]), files[1])
    model, theirs = ours.thawed(), _ElmoBiLm(*map(str, files))

    words = (folder / "vocab_test.txt").read_text(encoding="utf-8").split()
    with h5py.File(folder / "elmo_token_embeddings.hdf5") as file:
        expected = file["embedding"][...]
    vectors = model.token_encoder(torch.tensor(character_ids(words))).numpy()
    print(f"token layer, original:            {np.abs(vectors - expected).max():.2e}")

    lanes = [[text.split() for text in lane] for lane in json.loads((folder / "sentences.json").read_text())]
    tops = [h5py.File(folder / f"lm_embeddings_{lane}.hdf5") for lane in range(len(lanes))]
    original, allennlp, largest, state = 0.0, 0.0, 0.0, None
    for step, sentences in enumerate(zip(*lanes, strict=True)):
        layers, state = ours(padded_character_ids(list(sentences)), state)
        outputs = theirs(batch_to_ids(list(sentences)))
        for layer, activation in zip(layers, outputs["activations"], strict=True):
            stock, _ = remove_sentence_boundaries(activation, outputs["mask"])
            allennlp = max(allennlp, (layer - stock).abs().max().item())
        for row, (sentence, file) in enumerate(zip(sentences, tops, strict=True)):
            expected = np.concatenate(file[str(step)][...], axis=1)
            difference = np.abs(layers[-1, row, : len(sentence)].numpy() - expected).max()
            original, largest = max(original, difference), max(largest, np.abs(expected).max())
    print(f"top layer, stateful, original:    {original:.2e} (values up to {largest:.2f})")
    print(f"all layers, stateful, AllenNLP:   {allennlp:.2e}")

    texts = [words for lane in lanes for words in lane]
    alone = [ours.encode(padded_character_ids([words]))[:, 0] for words in texts]
    stateless = 0.0
    for seed in range(20):
        order = random.Random(seed).sample(range(len(texts)), len(texts))
        for size in (2, 7, 30):
            for start in range(0, len(order), size):
                chosen = order[start : start + size]
                layers = ours.encode(padded_character_ids([texts[i] for i in chosen]))
                for row, i in enumerate(chosen):
                    difference = (layers[:, row, : len(texts[i])] - alone[i]).abs().max().item()
                    stateless = max(stateless, difference)
    print(f"all layers, alone or in a batch:  {stateless:.2e}")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
