"""A text, and the way back from blocks to their sentences."""

import torch

from elmo_tasks.elmo.model.characters import character_ids, word_ids

DOCUMENTS = [
    [["The", "cat", "sat"], ["on"], ["the", "mat", "the", "cat"], ["고양이가", "잤다", "."], ["x"]],
    [["Ночь", "the", "@@PADDING@@", "<S>"], ["@@UNKNOWN@@", "cat"]],
    [["one", "two", "three", "four", "five", "six", "seven", "eight"]],
]


SENTENCES = [sentence for document in DOCUMENTS for sentence in document]


def words_by_input(kind, words):
    ids = (character_ids if kind == "characters" else word_ids)(words)
    return {row.tobytes(): word for row, word in zip(ids, words, strict=True)}


def rebuild(tensors, vocab, known, kind="characters"):
    """
    The passages of all blocks, sentence by sentence.

    Checks on the way that both directions agree and that all is in its place.
    """
    spelt = words_by_input(kind, ["<S>", "</S>", *known])
    streams = {}
    found = []
    for block in tensors:
        assert block["words"].dtype == (torch.int16 if kind == "characters" else torch.int64)
        rows = [row.tobytes() for row in block["words"].numpy()]
        assert len(set(rows)) == len(rows)
        assert block["inputs"].shape == block["targets"].shape == (2, block["lengths"].sum())
        assert block["inputs"].dtype == block["targets"].dtype == block["lengths"].dtype == torch.int64
        assert block["fresh"].dtype == torch.bool
        assert block["lengths"].sum() > 0
        assert torch.equal(block["inputs"].unique(), torch.arange(len(rows)))
        start = 0
        for stream, (length, fresh) in enumerate(
            zip(block["lengths"].tolist(), block["fresh"].tolist(), strict=True)
        ):
            part = slice(start, start + length)
            start += length
            if fresh:
                assert length
                streams[stream] = ([], [], [], [])
                found.append(streams[stream])
            if not length:
                continue
            for direction in (0, 1):
                streams[stream][direction].extend(
                    spelt[rows[n]] for n in block["inputs"][direction, part].tolist()
                )
                streams[stream][2 + direction].extend(block["targets"][direction, part].tolist())
    return [sentences_of(passage, vocab) for passage in found]


def sentences_of(passage, vocab):
    forward, backward, forward_targets, backward_targets = passage
    borders = [n for n, word in enumerate(backward) if word == "</S>"]
    sentences = []
    for start, end in zip(borders, [*borders[1:], len(backward)], strict=True):
        words = forward[start + 1 : end]
        assert forward[start] == "<S>"
        assert backward[start + 1 : end] == words[::-1]
        assert forward_targets[start:end] == [expected_class(w, vocab) for w in [*words, "</S>"]]
        assert backward_targets[start:end] == [expected_class(w, vocab) for w in [*words[::-1], "<S>"]]
        sentences.append(words)
    return sentences


def expected_class(word, vocab):
    ids = vocab.get_token_to_index_vocabulary("tokens")
    return 0 if word == "@@PADDING@@" else ids.get(word, 1) - 1


def by_size(documents, passage):
    return [d[n : n + (passage or len(d))] for d in documents for n in range(0, len(d), passage or len(d))]
