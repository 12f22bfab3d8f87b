"""README and docs/: the commands of a page run in order, from the project's folder; links resolve."""

import gzip
import importlib.util
import inspect
import json
import os
import re
import runpy
import shlex
import shutil
import socket
import sys
from functools import partial
from pathlib import Path

import allennlp.commands
import pytest
from allennlp.common.plugins import import_plugins

from elmo_tasks.archives.opening import trained_archives
from elmo_tasks.common.files import bundled
from elmo_tasks.elmo import Elmo
from tests.elmo.files import as_hdf5
from tests.elmo.many_langs import make_folder, make_zip
from tests.forked import Command, exit_code
from tests.training_configs_test import ON_THE_PAGES

PROJECT = Path(__file__).parent.parent
PAGES = [PROJECT / "README.md"] + [
    page
    for name in re.findall(r"(\S+\.md)$", (PROJECT / "mkdocs.yml").read_text(), flags=re.MULTILINE)
    if (page := PROJECT / "docs" / name).exists()
]
"""In the order of the site."""
TEXTS = {page: page.read_text(encoding="utf-8") for page in PAGES}


def blocks(language: str, page: Path) -> list[str]:
    """Returns the page's code blocks in this language."""
    return re.findall(rf"```{language}\n(.*?)```", TEXTS[page], flags=re.DOTALL)


def commands(page: Path) -> list[list[str]]:
    """Returns the commands of the page's `sh` blocks, split as by a shell; quotes may span lines."""
    split: list[list[str]] = []
    for block in blocks("sh", page):
        line = ""
        for part in block.splitlines(keepends=True):
            line += part
            try:
                words = shlex.split(line)
            except ValueError:  # within quotes
                continue
            if words and words not in split:
                split.append(words)
            line = ""
    return split


ALL_COMMANDS = [words for page in PAGES for words in commands(page)]


def in_one_epoch(words: list[str]) -> list[str]:
    """Returns a command with overrides that cut its training short; on Ray, with one worker."""
    if "--workers" in words:
        words = [*words, "--workers", "1"]
    if {"classify", "tag"} & set(words[2:3]):
        return [*words, "--epochs", "1"]
    if not {"train", "compare", "ablate"} & set(words[1:3]) or "bilm_official" in words[2]:
        return words
    words = list(words)
    if "--overrides" not in words:
        words += ["--overrides", "{}"]
    index = words.index("--overrides") + 1
    given = json.loads(words[index])
    # Beyond the first checkpoint within an epoch
    batches = 12 if "trainer.checkpointer.save_every_num_batches" in given else 1
    short = {"trainer.num_epochs": 1, "data_loader.batches_per_epoch": batches}
    words[index] = json.dumps(given | short)
    return words


SHORTENED = {
    "ner/*.conll": ("\n\n", 10),
    "srl/*.conll": ("\n\n", 10),
    "coref/*.conll": ("#end document\n", 2),
    "snli/*.jsonl": ("\n", 12),
    "sst/*.txt": ("\n", 12),
    "sst/predict.jsonl": ("\n", 1),
    "language_model/dev.txt": ("\n", 6),
    "classification/*/dev.*": ("\n", 8),
    "classification/messages/train.csv": ("\n", 41),
}
"""How many records of long fixtures the commands read, and how records end."""


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A folder with the files of a checkout, and the user's files that the pages name."""
    (tmp_path / "pretrained").symlink_to(bundled("pretrained").resolve())
    for name in ("training_configs", "fixtures"):
        shutil.copytree(bundled(name), tmp_path / name)
    for pattern, (end, number) in SHORTENED.items():
        for path in (tmp_path / "fixtures").glob(pattern):
            if path.suffix != ".json":
                path.write_text(end.join(path.read_text().split(end)[:number]) + end)
    for path in (tmp_path / "fixtures/squad").glob("[td]*.json"):
        squad = json.loads(path.read_text())
        squad["data"] = [{"title": "", "paragraphs": squad["data"][0]["paragraphs"][:2]}]
        path.write_text(json.dumps(squad))
    ner, elmo = bundled("fixtures/ner"), bundled("fixtures/elmo")
    for name in ("conll2003", "wnut17"):
        (tmp_path / "data" / name).mkdir(parents=True)
    for split in ("train", "dev"):
        text = (ner / f"{split}.conll").read_text()
        (tmp_path / f"data/conll2003/{split}.txt").write_text(text)
        two_columns = re.sub(r"(?m)^(\S+) .* (\S+)$", r"\1\t\2", text)
        (tmp_path / f"data/wnut17/{split}.conll").write_text(two_columns)
    for each in ("elmo", "seqvec") if HAS["h5py"] else ():
        as_hdf5(elmo, tmp_path / "data" / each)
    (tmp_path / "data/mine").mkdir()
    for split in ("train", "dev"):
        rows = "A warm and funny film.,good\nI hated every minute.,bad\n"
        (tmp_path / f"data/mine/{split}.csv").write_text(f"review,stars\n{rows * 10}")
    [config] = [
        block
        for block in blocks("jsonnet", PROJECT / "docs/classification.md")
        if "classifier.jsonnet" in block
    ]
    (tmp_path / "mine.jsonnet").write_text(config)
    make_folder(tmp_path / "data/ko")
    shutil.copytree(elmo, tmp_path / "nlpl")
    (tmp_path / "nlpl/weights.safetensors").rename(tmp_path / "nlpl/model.hdf5")
    make_zip(tmp_path / "nlpl", tmp_path / "data/nlpl.zip")
    with gzip.open(tmp_path / "data/vectors.50d.txt.gz", "wt") as file:
        file.write(" ".join(["the", *["0.1"] * 50]) + "\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


HAS = {
    module: importlib.util.find_spec(module) is not None for module in ("fastapi", "gensim", "h5py", "ray")
}


def needs_another_test(words: list[str]) -> bool:
    """
    Returns whether a command needs a package that is not installed, or runs in another test:
    `onnx_file_test`, `standalone/folder_test` and `on_ray_test`.
    """
    return (
        words[0] in ("make", "curl")
        or any("onnx" in word for word in words)
        or ("word2vec" in words and not HAS["gensim"])
        or ("ray" in words and (words[2] == "predict" or not HAS["ray"]))
        or (words[2:3] == ["serve"] and not HAS["fastapi"])
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "page", [page for page in PAGES if commands(page) or blocks("python", page)], ids=lambda page: page.stem
)
def test_commands_and_python_examples(page, folder, request, monkeypatch, capsys):
    for package, written in (("h5py", ".hdf5"), ("lmdb", ".activations")):
        if written in TEXTS[page]:
            pytest.importorskip(package)
    import_plugins()
    monkeypatch.setattr(allennlp.commands, "import_plugins", lambda: None)
    if HAS["fastapi"]:
        monkeypatch.setattr("uvicorn.Server.run", lambda server, sockets: None)
    todo = [in_one_epoch(words) for words in commands(page) if not needs_another_test(words)]
    for name in ("ner", "sst"):
        archive = folder / f"runs/{name}/model.tar.gz"
        trained_here = any(f"runs/{name}" in words for words in todo)
        if str(archive.relative_to(folder)) in TEXTS[page] and not trained_here:
            archive.parent.mkdir(parents=True)
            trained = trained_archives()["sst"] if name == "sst" else request.getfixturevalue("trained_ner")
            archive.symlink_to(trained if name == "sst" else trained / archive.name)
    machines: list[Command] = []
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    for words in todo:
        if words[2:3] == ["serve"]:
            words += ["--port", "0"]
        if "distributed" in "".join(words):
            arguments = [word.replace("29500", port) for word in words[1:] if word != "&"]
            machines.append(Command(arguments, folder / f"{len(machines)}.log", partial(os.chdir, folder)))
            if words[-1] != "&":
                for machine in machines:
                    machine.succeed()
                machines.clear()
        elif "ray" in words:
            # Ray leaves threads in its process.
            Command(words[1:], folder / "ray.log", partial(os.chdir, folder)).succeed()
        elif words[0] == "allennlp":
            monkeypatch.setattr(sys, "argv", words)
            assert exit_code() == 0, words
        elif words[1] != "-m":
            monkeypatch.setattr(sys, "argv", words[1:])
            runpy.run_path(str(PROJECT / words[1]), run_name="__main__")
        else:
            assert words[:2] == ["python", "-m"]
            monkeypatch.setattr(sys, "argv", words[2:])
            runpy.run_module(words[2], run_name="__main__", alter_sys=True)
    for example in blocks("python", page):
        if "onnx" not in example and (HAS["gensim"] or "gensim" not in example):
            exec(example, {})


def test_configs_that_no_other_test_trains():
    trained = {words[2] for words in ALL_COMMANDS if words[1] == "train" and "--overrides" not in words}
    assert {f"training_configs/{name}.jsonnet" for name in ON_THE_PAGES} <= trained


def test_the_first_example_prints_the_text_below_it(capsys):
    text = TEXTS[PROJECT / "README.md"]
    [(example, printed)] = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, flags=re.DOTALL)
    exec(example, {})
    assert capsys.readouterr().out == printed


def anchors(page: Path) -> set[str]:
    """Returns the targets of links into a page: its titles, as sites and hosts spell them, and its API."""
    text = re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)
    titles = re.findall(r"(?m)^#+ (.*)$", text)
    spelt = {re.sub(r"[^\w\s-]", "", title).strip().lower().replace(" ", "-") for title in titles}
    return spelt | set(re.findall(r"(?m)^::: (\S+)$", text))


def test_links_lead_to_files_and_titles():
    pages = [*PROJECT.glob("*.md"), *PROJECT.glob("docs/**/*.md"), *PROJECT.glob("pretrained/*/*.md")]
    link = re.compile(r"\]\((?!\w+:)([^)#\s]*)#?([^)\s]*)\)")
    links = [(page, *parts) for page in pages for parts in link.findall(page.read_text(encoding="utf-8"))]
    assert len(links) > 100
    for page, target, anchor in links:
        linked = page.parent / target if target else page
        assert linked.exists(), (page, target)
        assert not anchor or anchor in anchors(linked), (page, target, anchor)


def test_every_page_is_on_the_site():
    assert set(PROJECT.glob("docs/**/*.md")) == set(PAGES[1:])


def test_make_targets_exist():
    named = set(re.findall(r"(?m)(?:^|`)make (\w+)", "\n".join(TEXTS.values())))
    targets = set(re.findall(r"(?m)^(\w+):", (PROJECT / "Makefile").read_text()))
    assert {"ner", "test", "check", "docs", "lock"} <= named
    assert named <= targets


def test_block_is_documented_with_its_defaults():
    """The table of the `elmo` block lists the parameters of `Elmo`."""
    rows = re.findall(r"(?m)^\| (`[\w`, ]+`) \| (\S.*?) \|", TEXTS[PROJECT / "docs/elmo.md"])
    documented = {key: default for keys, default in rows for key in re.findall(r"\w+", keys)}
    for name, parameter in inspect.signature(Elmo).parameters.items():
        default = documented.pop(name).strip("`")
        if name not in ("options_file", "weight_file"):
            assert default == json.dumps(parameter.default).strip('"'), name
    assert not set(documented) & {"layer", "norm"}
