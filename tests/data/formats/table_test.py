"""The files of the table in docs/data.md, each read with its keys."""

import json
import logging
import re

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_tasks.common.files import bundled

ROW = re.compile(r"^\| `(elmo_\w+)` \| (.*?) \| (?:`(\{.*\})`)? ?\| [^|]*\|$", re.MULTILINE)
ROWS = ROW.findall((bundled("docs") / "data.md").read_text(encoding="utf-8"))


def test_each_row_is_read():
    text = (bundled("docs") / "data.md").read_text(encoding="utf-8")
    assert len(ROWS) == len(re.findall(r"(?m)^\| `elmo_", text)) > 10


@pytest.mark.parametrize(("reader", "file", "keys"), ROWS)
def test_a_file_with_its_keys(tmp_path, caplog, reader, file, keys):
    """Each record is labelled."""
    lines = [line.strip("`") for line in file.split("<br>")]
    content = "".join(f"{line}\n" for line in lines).replace("⇥", "\t").replace("⏎", "").replace("\\|", "|")
    (tmp_path / "a").write_text(content, encoding="utf-8")
    parameters = Params({"type": reader} | json.loads(keys or "{}"))
    with caplog.at_level(logging.ERROR):
        instances = list(DatasetReader.from_params(parameters).read(str(tmp_path / "a")))
    labels = {"tags", "label", "labels", "span_start", "answers"}
    assert instances
    for instance in instances:
        fields = set(instance.fields)
        assert labels & fields or instance["metadata"].metadata.get("clusters"), fields
