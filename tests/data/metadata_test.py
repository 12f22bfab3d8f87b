import json
from dataclasses import dataclass

from allennlp.common.util import sanitize

from elmo_tasks.data.fields import Metadata
from elmo_tasks.data.tokenization import Words


@dataclass
class Known(Metadata):
    words: Words
    label: str | None = None


def test_fields_by_their_names():
    """Also within what AllenNLP writes, where a missing value stays one."""
    known = Known(Words("a b", ["a", "b"], [(0, 1), (2, 3)]))
    (written,) = json.loads(json.dumps(sanitize({"metadata": [known]})))["metadata"]
    assert written == {
        "words": {"text": "a b", "words": ["a", "b"], "offsets": [[0, 1], [2, 3]]},
        "label": None,
    }
