"""Runs that share a folder of activations."""

from threading import Lock

import pytest
import torch

lmdb = pytest.importorskip("lmdb")

from elmo_tasks.elmo import Elmo
from tests.elmo.files import SENTENCES, batch

BATCHES = [
    SENTENCES,
    [SENTENCES[3]],
    [SENTENCES[4], SENTENCES[0], SENTENCES[4], [], SENTENCES[4]],
    [["Another", "one"], ["cat"], SENTENCES[1]],
    [[], []],
]
DISTINCT = 6
"""Sentences with words in `BATCHES`."""
ENCODING = Lock()
"""Held while a run encodes: in a process that is forked meanwhile, a lock of oneDNN stays locked."""


class Run:
    """The part of a run that computes layers. It ends with `close`, as a process does."""

    def __init__(self, files, folder, *, initial_state=None, **block):
        self.elmo = Elmo(
            activations={"path": str(folder), **block} if folder else None,
            initial_state=initial_state,
            **files,
        )
        self.encoded = []
        encode = self.elmo.bilm.encode

        def counted(ids, start=None):
            self.encoded.append(len(ids))
            with ENCODING:
                return encode(ids, start)

        self.elmo.bilm.encode = counted

    def layers(self, sentences):
        ids = batch(sentences)
        if self.elmo.activations is None:
            return self.elmo.bilm.encode(ids, self.elmo.start)
        return self.elmo.activations.encode(self.elmo.bilm, ids, self.elmo.start)

    def all_layers(self):
        return [self.layers(sentences) for sentences in BATCHES]

    def close(self):
        """Returns the number of encoded sentences."""
        del self.elmo
        return sum(self.encoded)


def fill(files, folder, **settings):
    run = Run(files, folder, **settings)
    run.all_layers()
    return run.close()


def databases(folder):
    return sorted(folder.glob("*/data.mdb"))


def records(folder):
    """Returns keys and values of the one database in a folder, which must not be open."""
    (path,) = databases(folder)
    with lmdb.open(str(path.parent), map_size=1 << 30) as database, database.begin() as transaction:
        return dict(transaction.cursor())


def expected(files):
    return Run(files, None).all_layers()


def assert_same(found, wanted, **tolerance):
    for one, other in zip(found, wanted, strict=True):
        torch.testing.assert_close(one, other, **(tolerance or {"atol": 1e-5, "rtol": 0}))
