"""`allennlp elmo embed`: what it writes, what it refuses, and how it goes on."""

import errno
import fcntl
import gzip
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path
from types import SimpleNamespace

import h5py
import numpy as np
import pytest
import torch
from allennlp.common.util import SigTermReceived

from elmo_tasks.commands import bilm_arguments, embed, vector_file
from elmo_tasks.commands.checkpoint import CHECKPOINT, Checkpoint
from elmo_tasks.commands.corpus import MAX_TOKENS
from elmo_tasks.elmo import FrozenBiLm, LstmState
from elmo_tasks.elmo.model.weight_file import write_initial_state
from elmo_tasks.elmo.sources import DEFAULT_OPTIONS, DEFAULT_WEIGHTS
from tests.commands.texts import DIM, LINES, TEXT, encode, feed_stdin, shipped_bilm
from tests.conftest import environment
from tests.elmo.files import make_word_files
from tests.elmo.inference.precisions import REFUSAL, take_bfloat16_away
from tests.elmo.numpy_reference import NumpyBiLm


@pytest.fixture
def source(tmp_path) -> Path:
    path = tmp_path / "in.txt"
    path.write_text(TEXT, encoding="utf-8")
    return path


@pytest.fixture
def output(tmp_path) -> Path:
    return tmp_path / "out.hdf5"


@pytest.fixture
def small_windows(monkeypatch):
    """Several windows, of several batches each with `--batch-tokens 4`."""
    monkeypatch.setattr(embed, "WINDOW_LINES", 4)


def partial(output: Path) -> Path:
    return output.with_name(output.name + ".partial")


def vectors(output: Path) -> list[np.ndarray]:
    with h5py.File(output) as file:
        return [file[str(line)][...] for line in range(len(file) - ("sentence_to_index" in file))]


def nothing_left(output: Path) -> bool:
    return not output.exists() and not partial(output).exists()


def test_vectors_are_those_of_the_bilm(elmo, source, output, capsys):
    assert elmo("embed", source, output) == 0
    found, bilm = vectors(output), shipped_bilm()
    assert len(found) == len(LINES)
    # All in one batch, the longest first.
    order = sorted(
        (line for line in range(len(LINES)) if LINES[line].split()), key=lambda i: -len(LINES[i].split())
    )
    together, _ = encode(bilm, [LINES[line].split() for line in order])
    for row, line in enumerate(order):
        words = LINES[line].split()
        assert np.array_equal(found[line], together[:, row, : len(words)].numpy())
        alone, _ = encode(bilm, [words])
        assert np.abs(found[line] - alone[:, 0].numpy()).max() < 1e-6
    shown = capsys.readouterr()
    assert shown.out.startswith(f"{output}: 10 sentences, 44 tokens, ")
    assert "embed: 100%" in shown.err
    assert not partial(output).exists()


def test_batch_tokens_bound_a_batch(elmo, source, output, tmp_path, monkeypatch):
    shapes = []
    encode = FrozenBiLm.encode
    monkeypatch.setattr(
        FrozenBiLm,
        "encode",
        lambda self, ids, start: (shapes.append(ids.shape[:2]), encode(self, ids, start))[1],
    )
    elmo("embed", source, output, "--batch-tokens", 12)
    assert all(rows == 1 or rows * longest <= 12 for rows, longest in shapes)
    assert len(shapes) > 2
    elmo("embed", source, tmp_path / "other.hdf5")
    for few, many in zip(vectors(output), vectors(tmp_path / "other.hdf5"), strict=True):
        assert np.allclose(few, many, rtol=0, atol=1e-6)


def test_layers(elmo, source, tmp_path):
    found = {}
    for layers in ("all", "top", "average"):
        assert elmo("embed", source, tmp_path / layers, "--layers", layers) == 0
        found[layers] = vectors(tmp_path / layers)
    for line, words in enumerate(map(str.split, LINES)):
        every, top, average = (found[layers][line] for layers in ("all", "top", "average"))
        assert every.shape == (3, len(words), DIM)
        assert top.shape == average.shape == (len(words), DIM)
        assert np.array_equal(top, every[-1])
        if words:
            assert np.allclose(average, np.average(every, axis=0), rtol=0, atol=1e-6)


def former_command(path: Path, embedded: list[np.ndarray]) -> None:
    """How AllenNLP 0.9 wrote them."""
    sentences = [line.strip() for line in LINES]
    with h5py.File(path, "w") as file:
        sentence_to_index = {}
        for key, output in enumerate(embedded):
            sentence_to_index[sentences[key]] = str(key)
            file.create_dataset(str(key), output.shape, dtype="float32", data=output)
        dataset = file.create_dataset("sentence_to_index", (1,), dtype=h5py.special_dtype(vlen=str))
        dataset[0] = json.dumps(sentence_to_index)


@pytest.mark.parametrize("layers", embed.LAYERS)
def test_the_file_reads_as_that_of_the_former_command(elmo, source, output, tmp_path, layers):
    elmo("embed", source, output, "--layers", layers)
    former_command(tmp_path / "former.hdf5", vectors(output))
    with h5py.File(output) as ours, h5py.File(tmp_path / "former.hdf5") as former:
        assert list(ours.keys()) == list(former.keys())
        for name in former:
            assert ours[name].shape == former[name].shape
            assert ours[name].chunks is former[name].chunks is None
            if name != "sentence_to_index":
                assert ours[name].dtype == former[name].dtype
                assert np.array_equal(ours[name][...], former[name][...])
        read = [json.loads(file["sentence_to_index"][0]) for file in (ours, former)]
        assert read[0] == read[1]
        assert list(read[0]) == list(read[1])
        assert read[0]["Yes"] == "6"
        assert read[0]["Zoë\tflew to  Łódź 😀"] == "1"
        assert json.loads(ours["sentence_to_index"].asstr()[0]) == read[0]
        assert json.loads(ours.get("sentence_to_index")[0]) == read[0]
        assert isinstance(ours["sentence_to_index"][0], bytes)
        assert h5py.check_string_dtype(ours["sentence_to_index"].dtype).encoding == "utf-8"


def test_forget_sentences(elmo, source, output):
    assert elmo("embed", source, output, "--forget-sentences") == 0
    with h5py.File(output) as file:
        assert set(file) == {str(line) for line in range(len(LINES))}


def test_stateful_carries_the_state_over_all_lines(elmo, source, output, small_windows):
    """As bilm-tf's `dump_bilm_embeddings`: one lane, in order."""
    assert elmo("embed", source, output, "--stateful") == 0
    bilm, state = shipped_bilm(), None
    for words, found in zip(map(str.split, LINES), vectors(output), strict=True):
        if words:
            layers, state = encode(bilm, [words], state)
            assert np.array_equal(found, layers[:, 0].numpy())
    first, again = (vectors(output)[line] for line in (3, 6))
    assert np.abs(first - again).max() > 1e-3


def test_initial_state(elmo, source, output, tmp_path):
    bilm = shipped_bilm()
    torch.manual_seed(1)
    state = LstmState(*(0.3 * torch.randn(part.shape) for part in bilm.initial_state(1)))
    write_initial_state(tmp_path / "state.hdf5", state.hidden[:, :, 0], state.cell[:, :, 0], attributes={})
    assert elmo("embed", source, output, "--initial-state", tmp_path / "state.hdf5") == 0
    for words, found in zip(map(str.split, LINES), vectors(output), strict=True):
        if words:
            layers, _ = encode(bilm, [words], state)
            assert np.abs(found - layers[:, 0].numpy()).max() < 1e-6


def test_options_of_the_bilm(elmo, source, output, monkeypatch):
    bilm, read = shipped_bilm(), []
    monkeypatch.setattr(bilm_arguments, "read_options", lambda source: source)
    monkeypatch.setattr(
        bilm_arguments,
        "read_frozen_bilm",
        lambda *files, precision: (read.append((*files, precision)), bilm)[1],
    )
    assert elmo("embed", source, output) == 0
    assert (
        elmo(
            *("embed", source, output, "--force", "--device", "cpu", "--precision", "bfloat16"),
            *("--options-file", "some.json", "--weight-file", "some.hdf5"),
            *("--vocabulary-file", "some.txt"),
        )
        == 0
    )
    assert read == [
        (DEFAULT_OPTIONS, DEFAULT_WEIGHTS, None, "float32"),
        ("some.json", "some.hdf5", "some.txt", "bfloat16"),
    ]


@pytest.mark.parametrize("stateful", [False, True])
def test_a_bilm_that_reads_words(elmo, source, output, tmp_path, stateful):
    files = make_word_files(tmp_path / "bilm")
    names = [f"--{key.replace('_', '-')}={file}" for key, file in files.items()]
    state = tmp_path / "state.hdf5"
    assert elmo("calibrate", source, state, *names) == 0
    assert elmo("embed", source, output, *names, *(["--stateful"] if stateful else [])) == 0
    reference = NumpyBiLm(**files)
    for words, found in zip(map(str.split, LINES), vectors(output), strict=True):
        if not stateful:
            reference.reset()
        if words:
            np.testing.assert_allclose(found, reference(words), atol=1e-5)
    assert elmo("embed", source, output, "--force", "--initial-state", state, *names) == 0


def test_inputs_of_the_same_text(elmo, source, tmp_path, monkeypatch):
    (tmp_path / "in.gz").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "gzip without its name").write_bytes(gzip.compress(TEXT.encode()))
    (tmp_path / "crlf.txt").write_bytes(TEXT.replace("\n", "\r\n").encode())
    (tmp_path / "bom.txt").write_bytes(b"\xef\xbb\xbf" + TEXT.encode())
    (tmp_path / "no end.txt").write_bytes(TEXT.encode()[:-1])
    (tmp_path / "folder").mkdir()
    for part, lines in (("a", LINES[:3]), ("b", LINES[3:])):
        (tmp_path / "folder" / part).write_text("\n".join(lines) + "\n", encoding="utf-8")
    elmo("embed", source, tmp_path / "expected")
    expected = (tmp_path / "expected").read_bytes()
    for name in ("in.gz", "gzip without its name", "crlf.txt", "bom.txt", "no end.txt", "folder"):
        assert elmo("embed", tmp_path / name, tmp_path / "out", "--force") == 0, name
        assert (tmp_path / "out").read_bytes() == expected, name
    for content in (TEXT.encode(), gzip.compress(TEXT.encode())):
        feed_stdin(monkeypatch, content)
        assert elmo("embed", "-", tmp_path / "out", "--force") == 0
        assert (tmp_path / "out").read_bytes() == expected


def test_an_empty_input_gives_an_empty_file(elmo, source, output):
    source.write_bytes(b"")
    assert elmo("embed", source, output) == 0
    with h5py.File(output) as file:
        assert list(file) == ["sentence_to_index"]
        assert json.loads(file["sentence_to_index"][0]) == {}
    assert elmo("embed", source, output, "--force", "--forget-sentences") == 0
    with h5py.File(output) as file:
        assert not list(file)


def test_nothing_but_empty_lines(elmo, source, output):
    source.write_bytes(b"\n \n\n")
    assert elmo("embed", source, output) == 0
    assert [found.shape for found in vectors(output)] == [(3, 0, DIM)] * 3


def test_long_lines(elmo, source, output):
    """A word of a million characters, and a sentence of 20,000 words in a batch of its own."""
    source.write_text(f"a {'b' * 1_000_000} c\n{'w ' * 20_000}\nd\n")
    assert elmo("embed", source, output, "--layers", "top") == 0
    assert [found.shape for found in vectors(output)] == [(3, DIM), (20_000, DIM), (1, DIM)]
    assert all(np.isfinite(found).all() for found in vectors(output))


ERRORS = {
    "not UTF-8": (
        b"fine\n\xc3\xa9t\xc3\xa9 \xe9t\xe9\n",
        "{source}, line 2: found the byte 0xe9 at offset 11",
    ),
    "broken gzip": (gzip.compress(os.urandom(500))[:300], "{source}, line 1: found "),
    "unsplit": (
        b"fine\n" + b"w " * (MAX_TOKENS + 1),
        "{source}, line 2: found 65,537 tokens, expected a sentence",
    ),
}


@pytest.mark.parametrize(("content", "message"), ERRORS.values(), ids=ERRORS)
def test_bad_lines_are_found_before_anything_is_encoded(
    elmo, source, output, capsys, monkeypatch, content, message
):
    source.write_bytes(content)
    monkeypatch.setattr(FrozenBiLm, "encode", None)
    assert elmo("embed", source, output) == 1
    assert message.format(source=source) in capsys.readouterr().err
    assert nothing_left(output)
    feed_stdin(monkeypatch, content)
    assert elmo("embed", "-", output) == 1
    assert message.format(source="error: standard input") in capsys.readouterr().err
    assert nothing_left(output)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere.txt", "out"], "nowhere.txt: found no file, expected a file, folder, pattern or URL"),
        (["in.txt", "folder"], "folder is not a file"),
        (["in.txt", "in.txt"], "in.txt exists; --force overwrites it"),
        (["in.txt", "in.txt/out"], "in.txt/out.partial: Not a directory"),
        (["in.txt", "nowhere/out"], "nowhere/out.partial: No such file or directory"),
        (["in.txt", "out", "--options-file", "in.txt"], "--options-file and --weight-file belong together"),
        (["in.txt", "out", "--options-file", "no", "--weight-file", "no"], "file no not found"),
        (["in.txt", "out", "--initial-state", "in.txt"], "in.txt: not a whole HDF5 file of an LSTM state"),
        (["in.txt", "out", "--device", "qpu"], "--device qpu cannot be used: Expected one of cpu"),
    ],
)
def test_errors(elmo, source, tmp_path, capsys, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    assert elmo("embed", *arguments) == 1
    shown = capsys.readouterr().err
    assert shown.startswith("error: ")
    assert message in shown
    assert "--resume" not in shown
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "in.txt"]
    assert source.read_text(encoding="utf-8") == TEXT


@pytest.mark.parametrize(
    "arguments",
    [
        ["--stateful", "--initial-state", "x"],
        ["--resume", "--force"],
        ["--batch-tokens", "0"],
        ["--layers", "3"],
    ],
)
def test_wrong_usage(elmo, source, output, arguments):
    assert elmo("embed", source, output, *arguments) == 2
    assert nothing_left(output)


def test_force_overwrites(elmo, source, output):
    output.write_text("old")
    assert elmo("embed", source, output, "--force") == 0
    assert len(vectors(output)) == len(LINES)


def test_the_disk_is_too_small(elmo, source, output, capsys, monkeypatch):
    usage = SimpleNamespace(free=9_000_000_000)
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda folder: usage)
        patch.setattr(vector_file, "_create_datasets", None)
        patch.setattr(vector_file, "_METADATA", 1_000_000_000)
        assert elmo("embed", source, output) == 1
    assert f"{partial(output)}: needs 10.000 GB of disk, 9.000 GB are free" in capsys.readouterr().err
    assert nothing_left(output)


def fail_with(number: int):
    def fail(*arguments):
        raise OSError(number, os.strerror(number))

    return fail


def test_the_disk_cannot_reserve_so_much(elmo, source, output, capsys, monkeypatch):
    monkeypatch.setattr(os, "posix_fallocate", fail_with(errno.ENOSPC))
    monkeypatch.setattr(FrozenBiLm, "encode", None)
    assert elmo("embed", source, output) == 1
    assert "GB of disk" in capsys.readouterr().err
    assert nothing_left(output)


def test_a_file_system_that_cannot_reserve(elmo, source, output, tmp_path, monkeypatch):
    elmo("embed", source, output)
    monkeypatch.setattr(os, "posix_fallocate", fail_with(errno.EOPNOTSUPP))
    assert elmo("embed", source, tmp_path / "one") == 0
    monkeypatch.delattr(os, "posix_fallocate")
    assert elmo("embed", source, tmp_path / "two") == 0
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes() == output.read_bytes()


def test_an_index_that_could_not_be_read(elmo, source, output, capsys, monkeypatch):
    monkeypatch.setattr(vector_file, "_MAX_INDEX", 100)
    assert elmo("embed", source, output) == 1
    assert "h5py reads 100 at most; --forget-sentences leaves it out" in capsys.readouterr().err
    assert nothing_left(output)
    assert elmo("embed", source, output, "--forget-sentences") == 0


def test_writes_that_the_kernel_cuts_short(elmo, source, output, tmp_path, monkeypatch):
    elmo("embed", source, tmp_path / "expected")
    pwritev = os.pwritev

    def short(descriptor, blocks, place):
        # Less than a block, a block and a bit, and a whole block in turn.
        size = (1000, len(blocks[0]) + 100, len(blocks[0]))[place % 3]
        cut, left = [], size
        for block in blocks:
            cut.append(block[:left])
            left -= len(cut[-1])
        return pwritev(descriptor, [block for block in cut if block], place)

    monkeypatch.setattr(os, "pwritev", short)
    assert elmo("embed", source, output) == 0
    assert output.read_bytes() == (tmp_path / "expected").read_bytes()


def stop_at_batch(monkeypatch, number: int, error: BaseException) -> None:
    """The biLM raises `error` instead of the batch `number`, from 0."""
    encode, calls = FrozenBiLm._in_parts, iter(range(1000))

    def stop(self, ids, run):
        if next(calls) == number:
            raise error
        return encode(self, ids, run)

    monkeypatch.setattr(FrozenBiLm, "_in_parts", stop)


@pytest.mark.parametrize(
    "options", [[], ["--stateful"], ["--layers", "top"], ["--forget-sentences"]], ids=str
)
def test_a_resumed_run_gives_the_same_file(
    elmo, source, tmp_path, capsys, monkeypatch, small_windows, options
):
    """Stopped at any batch."""
    options = [*options, "--batch-tokens", 4]
    assert elmo("embed", source, tmp_path / "expected", *options) == 0
    kept = []
    for number in range(100):
        output = tmp_path / f"out{number}"
        capsys.readouterr()
        with monkeypatch.context() as patch:
            stop_at_batch(patch, number, KeyboardInterrupt())
            code = elmo("embed", source, output, *options)
        if code == 0:
            break
        assert code == 130
        shown = capsys.readouterr().err
        assert shown.endswith(
            " of 10 lines are done, and the same command with --resume goes on from there\n"
        )
        kept.append(shown.split("interrupted; ")[1].split()[0])
        assert not output.exists()
        assert elmo("embed", source, output, *options, "--resume") == 0
        assert output.read_bytes() == (tmp_path / "expected").read_bytes()
        assert not partial(output).exists()
    assert number >= 7
    assert set(kept) == {"0", "4", "8"}
    assert kept == sorted(kept)


def test_resuming_does_not_encode_again(elmo, source, output, monkeypatch, small_windows):
    with monkeypatch.context() as patch:
        # In the last of three windows.
        stop_at_batch(patch, 7, KeyboardInterrupt())
        elmo("embed", source, output, "--stateful")
    words = []
    encode = FrozenBiLm._in_parts
    monkeypatch.setattr(
        FrozenBiLm,
        "_in_parts",
        lambda self, ids, run: (words.append(ids.shape[1]), encode(self, ids, run))[1],
    )
    assert elmo("embed", source, output, "--stateful", "--resume") == 0
    assert words == [len(line.split()) for line in LINES[8:]]


def test_sigterm(elmo, source, output, capsys, monkeypatch):
    stop_at_batch(monkeypatch, 0, SigTermReceived())
    assert elmo("embed", source, output) == 143
    assert "terminated; 0 of 10 lines are done" in capsys.readouterr().err
    assert partial(output).exists()


def test_the_disk_fails_on_the_way(elmo, source, output, tmp_path, capsys, monkeypatch, small_windows):
    """The disk's error comes from its thread; what was not written does not count as done."""
    elmo("embed", source, tmp_path / "expected")
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", fail_with(errno.ENOSPC))
        assert elmo("embed", source, output) == 1
    shown = capsys.readouterr().err
    assert "error: [Errno 28] No space left on device; 0 of 10 lines are done, and the same" in shown
    assert elmo("embed", source, output, "--resume") == 0
    assert output.read_bytes() == (tmp_path / "expected").read_bytes()


def test_the_device_has_too_little_memory(elmo, source, output, capsys, monkeypatch):
    stop_at_batch(monkeypatch, 0, torch.OutOfMemoryError("..."))
    assert elmo("embed", source, output) == 1
    assert "cpu has too little memory for 8 sentences of 18 tokens; 0 of 10" in capsys.readouterr().err


@pytest.fixture
def stopped(elmo, source, output, monkeypatch, small_windows, capsys) -> Path:
    """The folder of a run that was stopped in its second window."""
    with monkeypatch.context() as patch:
        stop_at_batch(patch, 1, KeyboardInterrupt())
        assert elmo("embed", source, output) == 130
    capsys.readouterr()
    return partial(output)


def test_resume_with_another_text(elmo, source, output, stopped, capsys):
    source.write_text(TEXT + "more\n", encoding="utf-8")
    assert elmo("embed", source, output, "--resume") == 1
    assert capsys.readouterr().err == (
        f"error: {stopped} cannot be resumed, this differs: the text; --force starts anew\n"
    )
    source.write_text(TEXT, encoding="utf-8")
    assert elmo("embed", source, output, "--resume") == 0


def test_resume_with_other_options(elmo, source, output, stopped, capsys, tmp_path):
    options = ("--layers", "top", "--batch-tokens", 5, "--forget-sentences")
    assert elmo("embed", source, output, "--resume", *options) == 1
    assert (
        "this differs: --layers (was all, is top), --batch-tokens (was 2048, is 5), "
        "--forget-sentences (was False, is True); --force"
    ) in capsys.readouterr().err
    bilm = shipped_bilm()
    ones = [torch.ones_like(part[:, :, 0]) for part in bilm.initial_state(1)]
    write_initial_state(tmp_path / "state", *ones, attributes={})
    assert elmo("embed", source, output, "--resume", "--initial-state", tmp_path / "state") == 1
    assert "this differs: the initial state; --force" in capsys.readouterr().err
    assert elmo("embed", source, output, "--resume", "--precision", "bfloat16") == 1
    assert "the biLM, --precision (was float32, is bfloat16); --force" in capsys.readouterr().err


def test_bfloat16_where_there_is_none(elmo, source, output, capsys, monkeypatch):
    take_bfloat16_away(monkeypatch)
    assert elmo("embed", source, output, "--precision", "bfloat16") == 1
    message = capsys.readouterr().err
    assert message.count("\n") == 1
    assert all(part in message for part in REFUSAL)
    assert not output.exists()


def test_a_stopped_run_is_not_lost_by_accident(elmo, source, output, stopped, capsys):
    assert elmo("embed", source, output) == 1
    assert "holds a run that was stopped; --resume goes on with it, --force starts" in capsys.readouterr().err
    assert elmo("embed", source, output, "--force", "--layers", "top") == 0
    assert vectors(output)[0].shape == (7, DIM)


def test_resume_with_a_broken_checkpoint(elmo, source, output, stopped, capsys):
    content = (stopped / CHECKPOINT).read_bytes()
    for broken in (b"", b"no zip", content[: len(content) // 2]):
        (stopped / CHECKPOINT).write_bytes(broken)
        assert elmo("embed", source, output, "--resume") == 1
        assert f"{stopped / CHECKPOINT}: not a checkpoint" in capsys.readouterr().err
    assert elmo("embed", source, output, "--force") == 0


def test_resume_with_nothing_to_resume(elmo, source, output, capsys):
    assert elmo("embed", source, output, "--resume") == 0
    before = output.read_bytes()
    capsys.readouterr()
    assert elmo("embed", source, output, "--resume") == 0
    assert capsys.readouterr().out == f"{output} is whole already\n"
    assert output.read_bytes() == before
    assert not partial(output).exists()


def test_resume_of_a_run_that_was_to_overwrite(elmo, source, output, monkeypatch):
    """The old file is there until the new one is whole."""
    output.write_text("old")
    with monkeypatch.context() as patch:
        stop_at_batch(patch, 0, KeyboardInterrupt())
        assert elmo("embed", source, output, "--force") == 130
    assert output.read_text() == "old"
    assert elmo("embed", source, output, "--resume") == 0
    assert len(vectors(output)) == len(LINES)


@pytest.mark.parametrize("at", ["replace", "unlink"])
def test_stopped_at_the_very_end(elmo, source, output, tmp_path, monkeypatch, at):
    elmo("embed", source, tmp_path / "expected")
    replace, unlink = os.replace, Path.unlink

    def stop(name, function):
        def stopping(path, *arguments, **options):
            if Path(path) == partial(output) / name and Path(path).exists():
                raise KeyboardInterrupt
            return function(path, *arguments, **options)

        return stopping

    with monkeypatch.context() as patch:
        if at == "replace":
            patch.setattr(os, "replace", stop(vector_file.VECTORS, replace))
            assert elmo("embed", source, output) == 130
        else:
            patch.setattr(Path, "unlink", stop(CHECKPOINT, unlink))
            assert elmo("embed", source, output) == 130
    assert elmo("embed", source, output, "--resume") == 0
    assert output.read_bytes() == (tmp_path / "expected").read_bytes()
    assert not partial(output).exists()


def test_two_runs_at_once(elmo, source, output, capsys):
    partial(output).mkdir()
    other = os.open(partial(output), os.O_RDONLY)
    fcntl.flock(other, fcntl.LOCK_EX)
    try:
        assert elmo("embed", source, output) == 1
    finally:
        os.close(other)
    assert f"{partial(output)} is in use by another process" in capsys.readouterr().err
    assert partial(output).exists()


def peak_memory(elmo, source: Path, output: Path, lines: int) -> int:
    source.write_text("".join(f"line {i // 60} {i % 60} of the text\n" for i in range(lines)))
    tracemalloc.start()
    try:
        assert elmo("embed", source, output, "--force", "--layers", "top") == 0
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow_with_the_text(elmo, source, output, monkeypatch):
    monkeypatch.setattr(embed, "WINDOW_LINES", 100)
    peak_memory(elmo, source, output, 200)
    few, many = (peak_memory(elmo, source, output, lines) for lines in (200, 4000))
    # 3,800 lines more would take 500 kB as strings alone, and 5 MB as vectors.
    assert many - few < 300_000


def test_killed_and_resumed(elmo, source, output, tmp_path):
    """SIGKILL, of a process of its own, after its first window."""
    source.write_text("".join(f"{i} is a number .\n" for i in range(20_000)))
    script = Path(sys.executable).with_name("allennlp")
    arguments = ["elmo", "embed", str(source), str(output), "--layers", "top"]
    process = subprocess.Popen(
        [sys.executable, str(script), *arguments], env=environment(), stderr=subprocess.DEVNULL
    )
    lines, deadline = 0, time.monotonic() + 120
    while not lines and process.poll() is None and time.monotonic() < deadline:
        time.sleep(0.01)
        if (partial(output) / CHECKPOINT).exists():
            with np.load(partial(output) / CHECKPOINT) as file:
                lines = json.loads(str(file["header"]))["lines"]
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert 0 < lines < 20_000
    assert not output.exists()
    assert elmo(*arguments[1:], "--resume") == 0
    assert elmo("embed", source, tmp_path / "expected", "--layers", "top") == 0
    assert output.read_bytes() == (tmp_path / "expected").read_bytes()


def test_checkpoint_is_read_back(tmp_path):
    state = LstmState(torch.randn(2, 2, 1, 3), torch.randn(2, 2, 1, 5))
    settings = {"the text": "x", "--stateful": True, "--initial-state": None}
    Checkpoint(5, 60, state).save(tmp_path, settings)
    lines, tokens, found = Checkpoint.load(tmp_path, settings)
    assert (lines, tokens) == (5, 60)
    assert all(map(torch.equal, found, state))
    Checkpoint(6, 61).save(tmp_path, settings)
    assert Checkpoint.load(tmp_path, settings) == (6, 61, None)
