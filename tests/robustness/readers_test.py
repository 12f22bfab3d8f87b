"""Whatever is in a file, a reader says what is wrong and where, or gives instances."""

from collections.abc import Callable
from pathlib import Path

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.common.files import bundled
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.senses import read_senses
from elmo_tasks.evaluation.tagging import read_tagged
from elmo_tasks.squad.dataset import read_datasets
from tests.common.files_test import UNREADABLE
from tests.robustness.attempt import FUZZ, attempt


def reading(**block: object) -> Callable[[str], list]:
    reader = DatasetReader.from_params(Params(block))
    return lambda path: list(reader.read(path))


LABELS = {"classes": ["0", "1"], "sentence1": "sentence", "label": "label"}
JSON_LAYOUTS = {
    "snli": reading(type="elmo_snli"),
    "srl": reading(type="elmo_srl"),
    "coref": reading(type="elmo_coref"),
    "squad": reading(type="elmo_squad"),
    "squad scores": lambda path: list(read_datasets(path)),
    "classification, lines": reading(type="elmo_classifier", format="jsonl", **LABELS),
    "classification, whole": reading(type="elmo_classifier", format="json", **LABELS),
    "senses": lambda path: list(read_senses(path)),
}
VALUES = {kind: text.encode() for kind, (text, _) in UNREADABLE.items()} | {"no UTF-8": b'"caf\xe9"'}


@pytest.mark.parametrize("read", JSON_LAYOUTS.values(), ids=JSON_LAYOUTS)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_json_that_python_cannot_use(tmp_path, read, value):
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"more": ' + value + b"}\n")
    with pytest.raises(InputError) as caught:
        read(str(file))
    assert str(caught.value).startswith(f"{file}, line 1: found ")
    assert len(str(caught.value)) < 500


LAYOUTS = {
    "ner/dev.conll": reading(type="elmo_ner"),
    "srl/dev.conll": reading(type="elmo_srl"),
    "srl/predict.jsonl": reading(type="elmo_srl"),
    "coref/dev.conll": reading(type="elmo_coref"),
    "squad/dev.json": reading(type="elmo_squad"),
    "snli/dev.jsonl": reading(type="elmo_snli"),
    "sst/dev.txt": reading(type="elmo_sst"),
    "classification/mrpc/train.txt": reading(
        type="elmo_classifier",
        format="tsv",
        classes=["different", "paraphrase"],
        label="Quality",
        label_names={"0": "different", "1": "paraphrase"},
        sentence1="#1 String",
        sentence2="#2 String",
    ),
    "language_model/dev.txt": reading(type="elmo_bilm", streams=2, bptt_steps=5),
    "evaluation/wsd_dev.jsonl": lambda path: list(read_senses(path)),
    "evaluation/pos_dev.conllu": lambda path: list(read_tagged(path, column="upos")),
}
PIECES = st.sampled_from(
    [
        *(b"", b"\n", b"\t", b" ", b"\r", b'"', b"{", b"]", b"(", b")", b"-", b"*", b"\0", b"\xff", b"\xc2"),
        *(b"[" * 2000, b"(" * 2000, b"(0 " * 2000, b"9" * 5000, b"NaN", rb"\ud800", b"null", b"-1", b"(0|(0"),
        "\u2028\u0345\ufeff".encode(),
    ]
) | st.binary(max_size=4)


@pytest.mark.parametrize("name", LAYOUTS)
@settings(max_examples=25 * FUZZ)
@given(changes=st.lists(st.tuples(st.integers(0), st.integers(0, 20), PIECES), min_size=1, max_size=3))
def test_any_change_of_a_file(name, changes, tmp_path):
    content = _begin(bundled("fixtures") / name)
    for place, length, piece in changes:
        place %= len(content) + 1
        content = content[:place] + piece + content[place + length :]
    file = tmp_path / Path(name).name
    file.write_bytes(content)
    _, message = attempt(LAYOUTS[name], str(file), error=InputError)
    assert not message or str(file) in message


def _begin(file: Path) -> bytes:
    """Of a JSON document all, else the first lines."""
    content = file.read_bytes()
    return content if file.suffix == ".json" else b"".join(content.splitlines(keepends=True)[:25])
