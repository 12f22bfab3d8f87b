import gzip
from collections import Counter

from benchmarks.english_text import NOVEL_BEGINNING, coreference, novels
from elmo_tasks.common.files import bundled


def test_a_novel_is_left_out_from_where_its_document_begins(tmp_path):
    """Also where the novel lacks the first word of its document."""
    documents = bundled("fixtures/coref/dev.conll")
    document = next(coreference(documents))
    assert len(document[0]) >= 9
    end = ["This", "is", "the", "end", "."]
    first = [*document, *[["So", "on", "."]] * (NOVEL_BEGINNING // 3), end]
    second = [document[0][1:], *document[1:], *[["And", "on", "."]] * (NOVEL_BEGINNING // 3), end]
    path = tmp_path / "novels.txt.gz"
    path.write_bytes(gzip.compress("".join(f"{' '.join(words)}\n" for words in first + second).encode()))
    left_out: Counter[str] = Counter()
    parts_left = list(novels(path, documents, left_out))
    assert [sentences[-1] for sentences in parts_left] == [end, end]
    text = [words for sentences in parts_left for words in sentences]
    assert not any(words in text for words in document[:-1] if len(words) > 3)
    assert left_out["novels begun"] == 1
