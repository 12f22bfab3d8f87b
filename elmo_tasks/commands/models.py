"""`allennlp elmo models`: the trained models of the project; `allennlp elmo slim`: small archives."""

from dataclasses import dataclass
from pathlib import Path

from elmo_tasks import __version__
from elmo_tasks.commands.base import Input, Verb, archive_argument, flag, option
from elmo_tasks.commands.staging import staged_file
from elmo_tasks.common.table import Table
from elmo_tasks.compat.archives import ArchiveError, extracted_archive
from elmo_tasks.compat.slim_archives import DType, local_archive, slim, trained_archives, trained_card


@dataclass(frozen=True, kw_only=True)
class Models(Verb):
    """The verb `models`."""

    name = "models"
    help = "The models that come trained."
    description = """Lists the archives that come with the project, with their scores. `elmo:NAME` is the path
        of an archive for each command, and `elmo_tasks.load("NAME")` opens it in Python."""

    def run(self) -> None:
        table = Table(("name", "task", "trained on", "score", "MB"))
        for name, path in trained_archives().items():
            card = trained_card(name)
            size = path.stat().st_size / 1e6
            table.add(f"elmo:{name}", card["task"], card["data"], card["score"], round(size, 1))
        print(table.markdown() if table.rows else "none is installed: pip install elmo_tasks[models]")


@dataclass(frozen=True, kw_only=True)
class Slim(Verb):
    """The verb `slim`; see `compat.slim_archives.slim`."""

    name = "slim"
    help = "An archive without its biLM."
    description = """Writes the archive of a model without its biLM, which must be the one that comes with the
        project, frozen. When the archive is opened, this biLM is put into it. A version of the project with
        another biLM refuses the archive."""

    archive: Input = archive_argument()
    output: Path = option("tar.gz file to write", short="-o", metavar="OUT", required=True)
    dtype: DType = option(
        "type of the stored weights; float16 rounds them", "float32", choices=("float32", "float16")
    )
    force: bool = flag("overwrite OUT")

    def run(self) -> None:
        path = local_archive(self.archive)
        if path.is_dir():
            path /= "model.tar.gz"
        if not path.is_file():
            raise ArchiveError(f"{self.archive}: found no file, expected a model.tar.gz")
        with staged_file(self.output, force=self.force) as staged, extracted_archive(path) as folder:
            slim(folder, staged, dtype=self.dtype, version=__version__)
        before, after = (file.stat().st_size / 1e6 for file in (path, self.output))
        print(f"{self.output}: {after:.1f} MB, {before:.1f} MB before")
