import pytest
from allennlp.commands import predict
from allennlp.common.checks import ConfigurationError

from elmo_tasks.predictors.command import LineFile, PredictManager


def test_it_stands_in_for_that_of_allennlp():
    assert predict._PredictManager is PredictManager


def test_a_full_disk(tmp_path, monkeypatch):
    """Nothing is left of the line that does not fit."""
    file = LineFile(str(tmp_path / "out"))
    file.write("one\n")

    class Full:
        def __getattr__(self, name):
            return getattr(whole, name)

        def write(self, content):
            if len(content) <= 3:
                raise OSError(28, "No space left on device")
            return whole.write(content[:5])

    whole, file._file = file._file, Full()
    with pytest.raises(OSError, match="No space"):
        file.write("two two\n")
    file.close()
    assert (tmp_path / "out").read_text() == "one\n"


def test_an_input_that_is_not_there_leaves_no_output(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nothing\.jsonl"):
        PredictManager(None, str(tmp_path / "nothing.jsonl"), str(tmp_path / "out"), 1, False, False)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("size", [0, -1])
def test_batches_of_no_line(tmp_path, size):
    """What stands in the output stays."""
    (tmp_path / "out").write_text("old")
    with pytest.raises(ConfigurationError, match=f"--batch-size is {size}, expected a positive whole number"):
        PredictManager(None, "in", str(tmp_path / "out"), size, False, False)
    assert (tmp_path / "out").read_text() == "old"
