"""What our components of spaCy share: batches of docs, and files that are saved with the pipeline."""

import shutil
import stat
from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Lock
from typing import Any

import srsly
from spacy.pipeline import Pipe
from spacy.tokens import Doc
from spacy.util import minibatch

from elmo_tasks.libraries.shared import after_fork

_opening = Lock()


def sentences(doc: Doc) -> list[list[int]]:
    """
    The tokens of each sentence, by their numbers in the doc; the doc is one, if nothing has set boundaries.
    White space is no word here, as in the rest of elmo_tasks: its tokens are left out.
    """
    spans = doc.sents if doc.has_annotation("SENT_START") else [doc]
    words = ([token.i for token in span if not token.is_space] for span in spans)
    return [sentence for sentence in words if sentence]


class FilesPipe(Pipe):
    """
    A component that works with what it reads from files.

    The files are read when they are first needed, by one thread, or with the pipeline that they were saved
    with: a saved pipeline holds copies of them, and those that its config names may be gone.

    # Parameters

    name : of the component in its pipeline.
    sources : what the config names: path, URL or `None`, by the name that a file has in a saved pipeline.
    """

    def __init__(self, *, name: str, sources: Mapping[str, str | None]) -> None:
        self.name = name
        self._sources = dict(sources)
        self._content: Any = None
        self._unpacked: TemporaryDirectory[str] | None = None

    @abstractmethod
    def annotate(self, docs: list[Doc]) -> None:
        """Sets what the component finds; if it raises, the docs are as they were."""

    @abstractmethod
    def read(self, sources: Mapping[str, str | None]) -> Any:
        """What `content` is."""

    @abstractmethod
    def local(self, source: str) -> AbstractContextManager[Path]:
        """The file or folder of a source on this machine, for as long as the context lasts."""

    @property
    def content(self) -> Any:
        """What was read from the files."""
        after_fork()
        if self._content is None:
            with _opening:
                if self._content is None:
                    self._content = self.read(self._sources)
        return self._content

    def __call__(self, doc: Doc) -> Doc:
        self.annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """The docs in their order, `batch_size` of them at once; the error handler gets a bad one alone."""
        for docs in minibatch(stream, batch_size):
            try:
                self.annotate(docs)
            except Exception:
                yield from super().pipe(docs)
            else:
                yield from docs

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """
        Copies the files to the folder `path`. When all are copied, they take the place of what is there.

        # Raises
        `ValueError`: `path` is within a folder that is to be copied.
        """
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as temporary, ExitStack() as stack:
            files = {
                name: stack.enter_context(self.local(source))
                for name, source in self._sources.items()
                if source
            }
            others = {name: file for name, file in files.items() if not _are_same(file, folder / name)}
            for name, file in others.items():
                if folder.resolve().is_relative_to(file.resolve()):
                    raise ValueError(f"{self.name}: found {folder} within {file}, expected it outside")
                _copy(file, Path(temporary, name))
            for name in others:
                target = folder / name
                if target.exists():
                    target.rename(Path(temporary, f"{name}.old"))
                Path(temporary, name).rename(target)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "FilesPipe":
        """
        Reads the files of the folder `path`, instead of those that the config names.

        # Raises
        `FileNotFoundError`: one of them is not there.
        """
        saved = {name: source and str(Path(path, name)) for name, source in self._sources.items()}
        for file in filter(None, saved.values()):
            if not Path(file).exists():
                raise FileNotFoundError(f"{self.name}: found no {file}, which the pipeline was saved with")
        self._content, self._sources = self.read(saved), saved
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        """The content of the files."""
        with TemporaryDirectory() as folder:
            self.to_disk(folder)
            files = (file for file in Path(folder).rglob("*") if file.is_file())
            return srsly.msgpack_dumps({str(file.relative_to(folder)): file.read_bytes() for file in files})

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "FilesPipe":
        """
        Reads what `to_bytes` gave; the files are in a temporary folder as long as the component lives.

        # Raises
        `ValueError`: a file in `data` is none of this component.
        """
        folder = TemporaryDirectory()
        for name, content in srsly.msgpack_loads(data).items():
            parts = Path(name).parts
            if parts[0] not in self._sources or ".." in parts:
                raise ValueError(f"{self.name}: found {name!r}, expected files of {', '.join(self._sources)}")
            file = Path(folder.name, name)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self.from_disk(folder.name)
        self._unpacked = folder
        return self

    def __reduce__(self) -> tuple[Any, ...]:
        """What is pickled, as for a process of `n_process`, holds the files."""
        settings = self.__dict__ | {"_content": None, "_unpacked": None}
        return _unpickled, (type(self), self.name, settings, self.to_bytes())


def _are_same(source: Path, target: Path) -> bool:
    return target.exists() and target.samefile(source)


def _copy(source: Path, target: Path) -> None:
    if source.is_dir():
        shutil.copytree(source, target)
        # A folder that cannot be written cannot be moved.
        target.chmod(target.stat().st_mode | stat.S_IWUSR)
    else:
        shutil.copyfile(source, target)


def _unpickled(kind: type[FilesPipe], name: str, settings: dict[str, Any], data: bytes) -> FilesPipe:
    component = kind.__new__(kind)
    component.name = name
    component.__dict__.update(settings)
    return component.from_bytes(data)
