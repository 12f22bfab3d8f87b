"""The locations that verbs write to: foreign files stay there, and a full disk is one line."""

import importlib.util
import subprocess
from pathlib import Path

import pytest
from allennlp.models.archival import archive_model

from elmo_tasks.common.files import bundled
from elmo_tasks.jobs.locations import MARK
from tests.elmo.files import needs_h5py
from tests.language_model.archives import write_run as write_language_model

TEXT, WORDS, INPUTS = (
    str(bundled(f"fixtures/{name}").resolve())
    for name in ("elmo/sentences.txt", "evaluation/corpus.txt", "ner/predict.jsonl")
)
BILM = bundled("fixtures/elmo").resolve()
FILES = f"--options-file {BILM}/options.json --weight-file {BILM}/weights.safetensors"
VERBS = {
    "embed": f"embed {TEXT} OUT {FILES}",
    "calibrate": f"calibrate {TEXT} OUT {FILES}",
    "predict": f"predict NER {INPUTS} OUT",
    "explain": f"explain NER {INPUTS} OUT --method simple-gradient",
    "export": "export BILM OUT",
    "ensemble": "ensemble NER NER --output OUT",
    "mix": "mix NER --output OUT.csv",
    "word2vec": f"vectors word2vec {WORDS} OUT --min-count 1",
    "elmo": f"vectors elmo {WORDS} OUT {FILES}",
}
needs_gensim = pytest.mark.skipif(importlib.util.find_spec("gensim") is None, reason="gensim is missing")
MARKS = {"word2vec": needs_gensim, **dict.fromkeys(("embed", "calibrate", "export"), needs_h5py)}
by_verb = pytest.mark.parametrize("verb", [pytest.param(verb, marks=MARKS.get(verb, ())) for verb in VERBS])


@pytest.fixture(scope="module")
def archives(tmp_path_factory, ner_archive) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("runs") / "bilm"
    write_language_model(folder)
    return {"NER": ner_archive, "BILM": str(archive_model(folder))}


@pytest.fixture
def run(elmo, archives, capsys):
    """Runs a verb of the table; returns its exit code and the lines on stderr."""

    def run(verb: str, output: Path, *options: str) -> tuple[int, list[str]]:
        command = VERBS[verb].replace("OUT", str(output))
        code = elmo(*(archives.get(word, word) for word in command.split()), *options)
        return code, [line for line in capsys.readouterr().err.splitlines() if "Warning" not in line]

    return run


def files_below(folder: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(folder)): path.read_bytes() if path.is_file() else None
        for path in folder.rglob("*")
    }


def own_folder(path: Path) -> None:
    path.mkdir()
    (path / "thesis.txt").write_text("x")


def link_to_a_folder(path: Path) -> None:
    own_folder(path.with_name("elsewhere"))
    (path.with_name("elsewhere") / MARK).touch()
    path.symlink_to("elsewhere")


def own_file(path: Path) -> None:
    path.write_text("x")


@pytest.mark.parametrize("make", [own_folder, link_to_a_folder, own_file])
@by_verb
def test_files_of_others_stay(tmp_path, run, verb, make):
    output = tmp_path / "own"
    partial = tmp_path / ("own.csv.partial" if verb == "mix" else "own.partial")
    make(partial)
    before = files_below(tmp_path)
    for options in ([], ["--force"]):
        code, lines = run(verb, output, *options)
        assert code == 1
        assert any(line.startswith(f"error: {partial}: found ") for line in lines)
        assert files_below(tmp_path) == before


@pytest.fixture(params=["40k", "400k"])
def small_disk(request, tmp_path):
    disk = tmp_path / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={request.param}", "tmpfs", disk]
    try:
        subprocess.run(mount, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"only root can mount a disk: {error}")
    yield disk
    subprocess.run(["umount", "--lazy", disk], check=True)  # a traceback may hold files open


@by_verb
def test_a_full_disk(small_disk, run, verb):
    code, lines = run(verb, small_disk / "out")
    left = files_below(small_disk)
    if code == 0:
        assert left
        assert b"" not in left.values()
        assert not any("partial" in name for name in left)
    else:
        (line,) = (line for line in lines if line.startswith("error"))
        assert str(small_disk / "out") in line
        assert "No space left on device" in line or "GB of disk" in line
        assert not left
