"""Opening the archives that AllenNLP writes, with errors that name them."""

import tarfile
import zlib
from pickle import UnpicklingError

from allennlp.common.checks import ConfigurationError
from allennlp.models.archival import Archive, load_archive


def open_archive(archive: str) -> Archive:
    """
    Of a path or URL of a `model.tar.gz`, or the folder of a run.

    # Raises
    `ConfigurationError`: what is there is no whole archive of a model. `OSError`: nothing is there.
    """
    try:
        return load_archive(archive)
    except (
        *(tarfile.TarError, EOFError, zlib.error),
        *(KeyError, ValueError, RuntimeError, UnpicklingError),
    ) as error:
        reason = str(error).partition("\n")[0]
        raise ConfigurationError(
            f"{archive}: not a whole archive of a model ({type(error).__name__}: {reason})"
        ) from error
