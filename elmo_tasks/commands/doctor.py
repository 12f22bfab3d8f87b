"""`allennlp elmo doctor`: the facts about an installation that a question about it needs."""

import os
import platform
from collections.abc import Callable, Iterator
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path

import torch
from allennlp.common import file_utils
from packaging.requirements import Requirement

from elmo_tasks.archives.opening import trained_archives
from elmo_tasks.commands.base import Verb
from elmo_tasks.common.files import bundled
from elmo_tasks.common.machine import cpu_count
from elmo_tasks.common.packed_weights import has_onednn, lone_row_block, onednn_has_bfloat16

OURS = "elmo_tasks"
PACKAGES = ("torch", "allennlp", "allennlp-models", "numpy", "spacy", "transformers", "h5py", "jsonnet")
INSTRUCTIONS = {
    "AVX2": "avx2",
    "AVX-512": "avx512_f",
    "AVX-512 BF16": "avx512_bf16",
    "AMX BF16": "amx_bf16",
    "VNNI": "avx512_vnni",
}
"""The instructions that decide about speed, and PyTorch's names for them."""

Facts = Iterator[tuple[str, str]]


class Doctor(Verb):
    name = "doctor"
    help = "What is installed here, and what this machine can do."
    description = """Prints versions, what the processor's instructions mean for precision and speed, the GPU,
        spaCy's models, caches and their sizes, and which optional parts can be used: the first thing to paste
        into a question. It changes nothing, and asks no other machine."""

    def run(self) -> None:
        for title, facts in SECTIONS.items():
            print(title)
            for name, fact in facts():
                print(f"  {name}: {fact}")


def versions() -> Facts:
    yield OURS, _version(OURS)
    yield "Python", f"{platform.python_version()}, {platform.system()} {platform.machine()}"
    yield "configs, fixtures", f"{_short(bundled('training_configs'))}, {_short(bundled('fixtures'))}"
    for name in PACKAGES:
        yield name, _version(name)
    if problems := [problem for need in _needs(extra=None) if (problem := _problem(need))]:
        yield "not as required", "; ".join(problems)


def processor() -> Facts:
    abilities = torch.cpu.get_capabilities()
    yield "name", f"{abilities.get('cpu_name') or platform.processor()}, {cpu_count()} cores"
    if hasattr(os, "sysconf"):  # not on Windows
        yield "memory", _size(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"))
    yield "threads", f"{torch.get_num_threads()} a process, by OMP_NUM_THREADS or the number of cores"
    for name, key in INSTRUCTIONS.items():
        yield name, "yes" if abilities.get(key) else "no"
    way = "packed weights, by oneDNN" if has_onednn() else "slower: this PyTorch has no oneDNN"
    yield "float32", f"{way}; {_lone_row('float32')}"
    if not onednn_has_bfloat16():
        yield "bfloat16", "cannot be used: it needs AVX-512"
        return
    native = abilities.get("avx512_bf16") or abilities.get("amx_bf16")
    speed = "faster than float32" if native else "can be used; no faster than float32"
    yield "bfloat16", f"{speed}, not exact; {_lone_row('bfloat16')}"


def _lone_row(precision: str) -> str:
    block = lone_row_block(precision)
    if block == 1:
        return "a lone row unpadded"
    return f"a lone row padded to {block}" if block > 0 else "rows in one thread, which is slower"


def gpus() -> Facts:
    if not torch.cuda.is_available():
        built = f"built for CUDA {torch.version.cuda}" if torch.version.cuda else "a CPU build"
        yield "none", f"PyTorch is {built}"
    for index in range(torch.cuda.device_count()):
        about = torch.cuda.get_device_properties(index)
        ability = f"compute capability {about.major}.{about.minor}, CUDA {torch.version.cuda}"
        yield f"cuda:{index}", f"{about.name}, {_size(about.total_memory)}, {ability}"


def spacy_models() -> Facts:
    models = sorted(entry.dist.name for entry in metadata.entry_points(group="spacy_models") if entry.dist)
    for name in models:
        yield name, _version(name)
    if not models:
        yield "none", "the default tokenizer is the rules of spaCy's blank English, which need none"


def caches() -> Facts:
    hub = Path(os.getenv("HF_HOME", Path.home() / ".cache" / "huggingface"), "hub")
    for name, folder in (("files of URLs", Path(file_utils.CACHE_DIRECTORY)), ("Hugging Face", hub)):
        sizes = [
            path.lstat().st_size for path in folder.rglob("*") if path.is_file() and not path.is_symlink()
        ]
        yield name, f"{_short(folder)}, {len(sizes):,} files, {_size(sum(sizes))}"


def extras() -> Facts:
    for extra in metadata.metadata(OURS).get_all("Provides-Extra") or ():
        problems = [problem for need in _needs(extra=extra) if (problem := _problem(need))]
        # A checkout has the models without the package of this extra.
        if extra == "models" and find_spec("elmo_tasks_models") is None and trained_archives():
            problems = []
        yield extra, "; ".join(problems) or "can be used"


SECTIONS: dict[str, Callable[[], Facts]] = {
    "versions": versions,
    "processor": processor,
    "GPU": gpus,
    "spaCy models": spacy_models,
    "caches": caches,
    "extras": extras,
}


def _needs(*, extra: str | None) -> Iterator[Requirement]:
    """Yields the requirements of this package, or those that only one of its extras has."""
    for line in metadata.requires(OURS) or ():
        need = Requirement(line)
        applies = need.marker.evaluate if need.marker else lambda environment: True
        always = applies({"extra": ""})
        if always if extra is None else not always and applies({"extra": extra}):
            yield need


def _problem(need: Requirement) -> str:
    version = _version(need.name)
    if version == "not installed":
        return f"{need.name} is not installed"
    fits = need.specifier.contains(version, prereleases=True)
    return "" if fits else f"{need.name} is {version}, not {need.specifier}"


def _version(name: str) -> str:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return "not installed"


def _short(path: Path) -> str:
    return str(path.resolve()).replace(f"{Path.home()}/", "~/", 1)


def _size(count: int) -> str:
    return f"{count / 1e9:.1f} GB" if count >= 1e9 else f"{count / 1e6:.1f} MB"
