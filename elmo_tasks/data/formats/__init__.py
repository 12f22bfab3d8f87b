"""
Files to records: a module a family of formats, for all tasks.

A reader knows a task and takes one kind of record; a format knows files. Each family lists its `Format`s,
with `detect` (how sure a sample of data is of it) and `read` (from a path to records). `FORMATS` is the
registry of them all, by kind of record. Files, folders, patterns, archives and URLs are found by
`data.input_files.input_files`, and lines of any encoding, packed or not, come from
`data.input_files.read_lines`.
"""

from elmo_tasks.data.formats import coreference, entities, pairs, questions, roles, texts, trees
from elmo_tasks.data.formats.base import CERTAIN, LIKELY, POSSIBLE, FileSample, Format, sample_of

FORMATS: dict[str, tuple[Format, ...]] = {
    "entities": entities.FORMATS,
    "roles": roles.FORMATS,
    "documents": coreference.FORMATS,
    "questions": questions.FORMATS,
    "pairs": pairs.FORMATS,
    "texts": texts.FORMATS,
    "trees": trees.FORMATS,
}
"""The formats of each kind of record, in the order in which equal evidence is decided."""


def evidence_of(kind: str, sample: FileSample) -> float:
    """Returns the evidence for the likeliest format of a kind."""
    return max(format.detect(sample) for format in FORMATS[kind])


__all__ = ["CERTAIN", "FORMATS", "LIKELY", "POSSIBLE", "FileSample", "Format", "sample_of"]
