"""The files of the table in docs/data.md, each read with its keys."""

import json
import logging
import re

import pytest
from allennlp.common import Params
from allennlp.data import DatasetReader

from elmo_tasks.commands.inspect import find_readings, read, read_with
from elmo_tasks.common.files import bundled
from elmo_tasks.data.formats.sample import sample_of
from elmo_tasks.data.input_files import InputError

ROW = re.compile(r"^\| `(elmo_\w+)` \| (.*?) \| (?:`(\{.*\})`)? ?\| [^|]*\|$", re.MULTILINE)
ROWS = ROW.findall((bundled("docs") / "data.md").read_text(encoding="utf-8"))


def test_each_row_is_read():
    text = (bundled("docs") / "data.md").read_text(encoding="utf-8")
    assert len(ROWS) == len(re.findall(r"(?m)^\| `elmo_", text)) > 10


def write(path, file):
    """Writes a file as it looks in the table."""
    lines = [line.strip("`") for line in file.split("<br>")]
    content = "".join(f"{line}\n" for line in lines).replace("⇥", "\t").replace("⏎", "").replace("\\|", "|")
    path.write_text(content, encoding="utf-8")
    return str(path)


@pytest.mark.parametrize(("reader", "file", "keys"), ROWS)
def test_a_file_with_its_keys(tmp_path, caplog, reader, file, keys):
    """Each record is labelled."""
    path = write(tmp_path / "a", file)
    parameters = Params({"type": reader} | json.loads(keys or "{}"))
    with caplog.at_level(logging.ERROR):
        instances = list(DatasetReader.from_params(parameters).read(path))
    labels = {"tags", "label", "labels", "span_start", "answers"}
    assert instances
    for instance in instances:
        fields = set(instance.fields)
        assert labels & fields or instance["metadata"].metadata.get("clusters"), fields


@pytest.mark.parametrize(("reader", "file", "keys"), ROWS)
def test_inspect_finds_the_keys(tmp_path, reader, file, keys):
    """One of its readings has the tokens and labels that the keys of the table give."""
    task = reader.removeprefix("elmo_").replace("classifier", "classification")
    path = write(tmp_path / "a", file)
    sample = sample_of(path)
    expected = read_with(task, path, {"type": reader} | json.loads(keys or "{}"), sample)
    found, problem = [], None
    for reading in find_readings(sample, task):
        if reading.problem is not None:
            problem = problem or reading.problem
            continue
        try:
            found.append(read(path, reading, sample))
        except InputError as error:
            problem = error
    if "tag_names" in keys:
        assert "tag_names" in str(problem)
        return
    assert (expected.tokens, expected.labels) in [(each.tokens, each.labels) for each in found], problem
