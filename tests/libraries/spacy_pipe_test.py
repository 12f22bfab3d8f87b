from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

import pytest
import spacy
import srsly

from elmo_tasks.libraries.spacy_pipe import FilesPipe, sentences


class Marks(FilesPipe):
    """Writes the content of its file to each doc; refuses docs with the word "bad"."""

    reads = 0

    def read(self, sources: Mapping[str, str | None]) -> str:
        self.reads += 1
        return Path(str(sources["mark"])).read_text()

    def local(self, source: str) -> AbstractContextManager[Path]:
        return nullcontext(Path(source))

    def annotate(self, docs) -> None:
        if any(token.text == "bad" for doc in docs for token in doc):
            raise ValueError("a bad doc")
        for doc in docs:
            doc.user_data["mark"] = self.content


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "source.txt"
    path.write_text("x")
    return path


@pytest.fixture
def marks(source):
    return Marks(name="marks", sources={"mark": str(source)})


def test_sentences_are_words_by_number():
    nlp = spacy.blank("en")
    one, two = ["One", "two", "."], ["Three", "."]
    for expected in ([[*one, *two]], [one, two]):
        doc = nlp("One  two.\n\nThree.\n ")
        assert [[doc[i].text for i in words] for words in sentences(doc)] == expected
        if "sentencizer" not in nlp.pipe_names:
            nlp.add_pipe("sentencizer")
    assert sentences(nlp("")) == sentences(nlp(" \n")) == []


def test_only_the_bad_doc_of_a_batch_is_lost(marks):
    docs = list(spacy.blank("en").pipe(["one", "a bad one", "two", "three"]))
    with pytest.raises(ValueError, match="a bad doc"):
        list(marks.pipe(docs))
    refused = []
    marks.set_error_handler(lambda name, component, docs, error: refused.extend(docs))
    assert list(marks.pipe(docs, batch_size=3)) == [docs[0], docs[2], docs[3]]
    assert refused == [docs[1]]


def test_a_saved_component_does_not_need_its_source(marks, source, tmp_path):
    marks.to_disk(tmp_path / "saved")
    marks.to_disk(tmp_path / "saved")
    data = marks.to_bytes()
    source.unlink()
    again = Marks(name="marks", sources={"mark": "gone"}).from_disk(tmp_path / "saved")
    again.to_disk(tmp_path / "saved")  # onto itself
    from_bytes = Marks(name="marks", sources={"mark": "gone"}).from_bytes(data)
    assert again.content == from_bytes.content == "x"
    assert from_bytes.to_bytes() == again.to_bytes() == data


def saved_names(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*"))


def test_saved_files_stay_if_a_source_is_missing(marks, source, tmp_path):
    marks.to_disk(tmp_path / "saved")
    source.write_text("y")
    broken = Marks(name="marks", sources={"mark": str(source), "other": "nowhere"})
    with pytest.raises(FileNotFoundError):
        broken.to_disk(tmp_path / "saved")
    assert saved_names(tmp_path / "saved") == ["mark"]
    assert (tmp_path / "saved/mark").read_text() == "x"


@pytest.mark.parametrize("name", ["../mark", "other", "mark/../../x", "/mark"])
def test_bytes_with_other_files_are_refused(marks, name):
    with pytest.raises(ValueError, match=name):
        marks.from_bytes(srsly.msgpack_dumps({name: b"x"}))
