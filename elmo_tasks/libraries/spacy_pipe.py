"""The base of our spaCy components: batches of docs, and files that are saved with the pipeline."""

import shutil
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

_OPENING_LOCK = Lock()


def sentences(doc: Doc) -> list[list[int]]:
    """Returns the indices of each sentence's tokens, without white space; by default of one sentence."""
    spans = doc.sents if doc.has_annotation("SENT_START") else [doc]
    words = ([token.i for token in span if not token.is_space] for span in spans)
    return [sentence for sentence in words if sentence]


class FilesPipe(Pipe):
    """
    The base of components that read files, when they are first needed, in one thread. A saved pipeline holds
    copies of them, and does not need the files that its config names. `sources` are the config's paths, URLs
    or `None`, by the names of the files in a saved pipeline.
    """

    def __init__(self, *, name: str, sources: Mapping[str, str | None]) -> None:
        self.name = name
        self._sources = dict(sources)
        self._content: Any = None
        self._unpacked: TemporaryDirectory[str] | None = None

    @abstractmethod
    def annotate(self, docs: list[Doc]) -> None:
        """Sets the component's results on the docs; if it raises, the docs stay as they were."""

    @abstractmethod
    def read(self, sources: Mapping[str, str | None]) -> Any:
        """Reads the files, and returns `content`."""

    @abstractmethod
    def local(self, source: str) -> AbstractContextManager[Path]:
        """Returns a context with the local file or folder of a source."""

    @property
    def content(self) -> Any:
        """The content of the files, which are read at the first use."""
        if self._content is None:
            with _OPENING_LOCK:
                if self._content is None:
                    self._content = self.read(self._sources)
        return self._content

    def __call__(self, doc: Doc) -> Doc:
        self.annotate([doc])
        return doc

    def pipe(self, stream: Iterable[Doc], *, batch_size: int = 128) -> Iterator[Doc]:
        """Yields the docs in order, annotated in batches; the error handler gets only the bad doc."""
        for docs in minibatch(stream, batch_size):
            try:
                self.annotate(docs)
            except Exception:
                yield from super().pipe(docs)
            else:
                yield from docs

    def to_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> None:
        """Copies the files to `path`, when all are read."""
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=folder) as temporary, ExitStack() as stack:
            files = {
                name: stack.enter_context(self.local(source))
                for name, source in self._sources.items()
                if source
            }
            for name, file in files.items():
                copy = shutil.copytree if file.is_dir() else shutil.copyfile
                copy(file, Path(temporary, name))
            for name in files:
                target = folder / name
                if target.exists():
                    target.rename(Path(temporary, f"{name}.old"))
                Path(temporary, name).rename(target)

    def from_disk(self, path: str | Path, *, exclude: Iterable[str] = ()) -> "FilesPipe":
        """Reads the files of the folder `path` instead of the files that the config names."""
        saved = {name: source and str(Path(path, name)) for name, source in self._sources.items()}
        self._content, self._sources = self.read(saved), saved
        return self

    def to_bytes(self, *, exclude: Iterable[str] = ()) -> bytes:
        with TemporaryDirectory() as folder:
            self.to_disk(folder)
            files = (file for file in Path(folder).rglob("*") if file.is_file())
            return srsly.msgpack_dumps(
                {file.relative_to(folder).as_posix(): file.read_bytes() for file in files}
            )

    def from_bytes(self, data: bytes, *, exclude: Iterable[str] = ()) -> "FilesPipe":
        """Reads the result of `to_bytes` into a temporary folder; `ValueError` if it has other files."""
        folder = TemporaryDirectory()
        for name, content in srsly.msgpack_loads(data).items():
            file, parts = Path(folder.name, name), Path(name).parts
            if parts[0] not in self._sources or ".." in parts:
                raise ValueError(
                    f"{self.name}: the bytes have a file {name!r}, which to_bytes does not write"
                )
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_bytes(content)
        self.from_disk(folder.name)
        self._unpacked = folder
        return self

    def __reduce__(self) -> tuple[object, ...]:
        """Pickles the component with its files, for instance for the processes of `n_process`."""
        return _unpickled, (type(self), self.name, self.state(), self.to_bytes())

    def state(self) -> dict[str, Any]:
        """Returns the attributes to pickle."""
        return self.__dict__ | {"_content": None, "_unpacked": None}


def _unpickled(kind: type[FilesPipe], name: str, state: dict[str, Any], data: bytes) -> FilesPipe:
    component = kind.__new__(kind)
    component.name = name
    component.__dict__.update(state)
    return component.from_bytes(data)
