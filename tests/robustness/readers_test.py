"""Whatever is in a file, a reader says what is wrong and where, or gives instances."""

from collections.abc import Callable
from pathlib import Path

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.common.files import bundled
from elmo_tasks.data.fields import NoPrediction
from elmo_tasks.data.formats.questions import read_good_questions
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.probes import read_senses, read_tagged
from tests.records import json_lines
from tests.robustness.attempt import FUZZ, UNREADABLE, attempt


def reading(**block: object) -> Callable[[str], list]:
    reader = DatasetReader.from_params(Params(block))
    return lambda path: list(reader.read(path))


LABELS = {"classes": ["0", "1"], "sentence1": "sentence", "label": "label"}
JSON_LAYOUTS = {
    "snli": reading(type="elmo_snli"),
    "srl": reading(type="elmo_srl"),
    "coref": reading(type="elmo_coref"),
    "squad": reading(type="elmo_squad"),
    "squad scores": read_good_questions,
    "classification, lines": reading(type="elmo_classifier", format="jsonl", **LABELS),
    "classification, whole": reading(type="elmo_classifier", format="json", **LABELS),
    "senses": lambda path: list(read_senses(path)),
}
VALUES = UNREADABLE | {"no UTF-8": b'"caf\xe9"'}


@pytest.mark.parametrize("read", JSON_LAYOUTS.values(), ids=JSON_LAYOUTS)
@pytest.mark.parametrize("value", VALUES.values(), ids=VALUES)
def test_json_that_python_cannot_use(tmp_path, read, value):
    file = tmp_path / "x.jsonl"
    file.write_bytes(b'{"more": ' + value + b"}\n")
    with pytest.raises(InputError) as caught:
        read(str(file))
    assert str(caught.value).startswith(f"{file}, line 1")
    assert len(str(caught.value)) < 500


LAYOUTS = {
    "ner/dev.conll": reading(type="elmo_ner"),
    "srl/dev.conll": reading(type="elmo_srl"),
    "srl/predict.jsonl": reading(type="elmo_srl"),
    "coref/dev.conll": reading(type="elmo_coref"),
    "squad/dev.json": reading(type="elmo_squad"),
    "snli/dev.jsonl": reading(type="elmo_snli"),
    "sst/dev.txt": reading(type="elmo_sst"),
    "sentence/dev.jsonl": reading(type="elmo_sentence"),
    "classification/mrpc/train.txt": reading(
        type="elmo_classifier", format="tsv", **LABELS | {"label": "Quality", "sentence1": "#1 String"}
    ),
    "language_model/dev.txt": reading(type="elmo_bilm", streams=2, bptt_steps=5),
    "evaluation/wsd_dev.jsonl": lambda path: list(read_senses(path)),
    "evaluation/pos_dev.conllu": lambda path: list(read_tagged(path, column="upos")),
}
CONLL_2009 = """1 a a a N N _ _ 2 2 SBJ SBJ _ _ A0
2 b b b V V _ _ 0 0 ROOT ROOT Y b.01 _
""".replace(" ", "\t")
SLOTS = {"text": "play song x", "slot label": [["name", 1, 2]]}
CONTENTS = {
    "roles.conll09": (CONLL_2009, reading(type="elmo_srl")),
    "predicates.conll09": (CONLL_2009, reading(type="elmo_ner", format="predicates")),
    "slots.jsonl": (json_lines(SLOTS, SLOTS), reading(type="elmo_ner")),
}
"""Layouts of which there is no file."""
PIECES = st.sampled_from(
    [
        *(b"", b"\n", b"\t", b" ", b"\r", b'"', b"{", b"]", b"(", b")", b"-", b"*", b"\0", b"\xff", b"\xc2"),
        *(b"[" * 2000, b"(" * 2000, b"(0 " * 2000, b"9" * 5000, b"NaN", rb"\ud800", b"null", b"-1", b"(0|(0"),
        "\u2028\u0345\ufeff".encode(),
    ]
) | st.binary(max_size=4)


@pytest.mark.parametrize("name", [*LAYOUTS, *CONTENTS])
@settings(max_examples=25 * FUZZ)
@given(changes=st.lists(st.tuples(st.integers(0), st.integers(0, 20), PIECES), min_size=1, max_size=3))
def test_any_change_of_a_file(name, changes, tmp_path):
    text, read = CONTENTS.get(name) or ("", LAYOUTS[name])
    content = text.encode() or _begin(bundled("fixtures") / name)
    for position, length, piece in changes:
        position %= len(content) + 1
        content = content[:position] + piece + content[position + length :]
    file = tmp_path / Path(name).name
    file.write_bytes(content)
    _, message = attempt(read, str(file), error=InputError)
    assert not message or str(file) in message


def _begin(file: Path) -> bytes:
    """Returns the whole of a JSON document, the first lines of another file."""
    content = file.read_bytes()
    return content if file.suffix == ".json" else b"".join(content.splitlines(keepends=True)[:25])


COREF = """#begin document (d); part 000
d 0 0 Ana - - - - - - - (1)
d 0 1 left - - - - - - - -

#end document
"""
BERT = {
    "sentences": [["[CLS]", "An", "##a", "left", "[SEP]"]],
    "subtoken_map": [0, 0, 0, 1, 1],
    "clusters": [[[1, 2]]],
}
DOCUMENT = {"doc_key": "d", "sentences": [["Ana", "left"], ["She", "did"]], "clusters": [[[0, 0], [2, 2]]]}
PRECO = {"sentences": [["Ana", "left"]], "mention_clusters": [[[0, 0, 1]]]}
QUESTION = {"context": "x", "question": "x", "answers": {"text": ["x"], "answer_start": [0]}}
PAIR = {"gold_label": "neutral", "sentence1": "a", "sentence2": "b"}

MALFORMED = [
    *(
        ("coref", COREF.replace(*change), line)
        for change, line in [
            (("(1)", "(1"), 2),
            (("(1)", "1)"), 2),
            (("- - (1)", "(1)"), 2),
            (("#end document\n", ""), 4),
            (("#end document\n", "#begin document (e);\n"), 5),
            (("0 1 left", "0 x left"), 3),
        ]
    ),
    ("coref", "#begin document (d);\n#end document\n", 1),
    ("coref", '{"tokens": []}', 1),
    *(
        ("coref", json_lines(content, content | change), 2)
        for content, change in [
            (BERT, {"subtoken_map": [0] * 4}),
            (PRECO, {"mention_clusters": [[[1, 0, 1]]]}),
            (DOCUMENT, {"sentences": [["Ana"], []]}),
            (DOCUMENT, {"clusters": [[[3, 4]]]}),
            (DOCUMENT, {"speakers": [["-"] * 2]}),
        ]
    ),
    *(("snli", json_lines(PAIR, PAIR | {"gold_label": label}), 2) for label in ("Neutral", 0)),
    ("snli", json_lines({"sentence1": "a", "sentence2": "b"}), 1),
    ("snli", json_lines(PAIR, PAIR | {"sentence2": ["a"]}), 2),
    ("snli", json_lines(PAIR | {"gold_label": "-"}), None),
    ("snli", '[{"sentence1": "NaN"},\n{"sentence1": NaN}]', 2),
    ("classifier", "text,kind\nx,y\n", 2),
    ("classifier", "text\tlabel\n\nx\ta\nx\tA\n", 4),
    ("classifier", 'text,label\n"two\nlines",a\nx,c\n', 4),
    ("classifier", '[\n{"text": "x",\n"label": "a"},\n\n{"text": 5, "label": "a"}]', 5),
    ("classifier", "__label__a __label__b x\n", 1),
    ("sst", "(2 It)\nIt\n", 2),
    ("srl", f"{CONLL_2009}\n{CONLL_2009.splitlines()[0]}\n2\tb\n", 4),
    ("ner", json_lines(SLOTS, SLOTS | {"slot label": [["name", 1]]}), 2),
    ("squad", '{\n"data": [}', 2),
    ("squad", "", None),
]


@pytest.mark.parametrize(("name", "content", "line"), MALFORMED)
def test_an_error_names_file_and_line(tmp_path, name, content, line):
    (tmp_path / "a").write_bytes(content.encode("latin-1"))
    classes = {"classes": ["a", "b"]} if name == "classifier" else {}
    with pytest.raises(InputError) as error:
        reading(type=f"elmo_{name}", **classes)(str(tmp_path / "a"))
    assert (error.value.where, error.value.line) == (str(tmp_path / "a"), line)


WITHOUT_WORDS = [
    ("ner", json_lines({"id": 1, "tokens": ["x"], "ner_tags": ["O"]}, {"id": 2, "tokens": []})),
    ("ner", json_lines({"id": 1, "text": "x", "label": []}, {"id": 2, "text": " "})),
    ("srl", json_lines({"id": 1, "tokens": ["x"], "predicates": [0]}, {"id": 2, "tokens": []})),
    ("coref", json_lines({"id": 1, "sentences": [["x"]]}, {"id": 2, "sentences": [[]]})),
    ("classifier", json_lines({"id": 1, "text": "x", "label": "a"}, {"id": 2, "text": " "})),
    ("snli", json_lines(PAIR, PAIR | {"id": 2, "sentence2": ""})),
]
DAMAGED = [
    ("ner", '{"tokens": ["x"], "ner_tags": ["O"]}\n{"tokens": ["y", }\n', 2),
    ("ner", "Sentence #,Word,POS,Tag\n1,x,NN,O\n2,y,NN,O\n,y,NN\n", 4),
    ("srl", '{"tokens": ["x"], "predicates": [0]}\n{"tokens": ["y"], }\n', 2),
    ("coref", '{"sentences": [["x"]]}\n{"sentences": [["y"]}\n', 2),
    ("coref", COREF + "#begin document y\n0\ty\t(1\n#end document\n", 7),
    ("classifier", '{"text": "x", "label": "a"}\n{"text": "y"\n', 2),
    ("classifier", "text,label\nx,a\ny\n", 3),
    ("sst", "(2 x)\n(3 y\n", 2),
    ("squad", json_lines(QUESTION) + '{"y": }\n', 2),
]


@pytest.mark.parametrize(("name", "content", "line"), [*((*each, 2) for each in WITHOUT_WORDS), *DAMAGED])
def test_a_bad_record_after_a_good_one(tmp_path, name, content, line):
    """It is an error, or left out, or has a reason in place of a prediction."""

    def read(*, every_record, **keys):
        classes = {"classes": ["a", "b"]} if name == "classifier" else {}
        reader = DatasetReader.from_params(Params({"type": f"elmo_{name}", **classes, **keys}))
        reader.every_record = every_record
        return [each["metadata"].metadata for each in reader.read(str(path))]

    path = tmp_path / "a"
    path.write_text(content)
    damaged = (name, content, line) in DAMAGED
    message = f"{path}, line {line}: "
    with pytest.raises(InputError) as error:
        read(every_record=False)
    assert str(error.value).startswith(message)
    assert len(read(every_record=False, skip_bad=True)) == 1
    for skip_bad in (True, damaged):
        first, second = read(every_record=True, skip_bad=skip_bad)
        assert not isinstance(first, NoPrediction)
        assert second.reason.startswith(message)
        assert dict(second.ids) == (
            {"doc_key": "y"} if "document" in content else {} if damaged else {"id": 2}
        )
