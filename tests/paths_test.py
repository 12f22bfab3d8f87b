import importlib.util
import shutil

import pytest

from elmo_tasks.common import files
from elmo_tasks.common.files import bundled


@pytest.mark.parametrize("name", ["fixtures/elmo/options.json", "pretrained/english", "training_configs"])
def test_what_comes_with_the_project_is_there(name):
    assert bundled(name).exists()
    assert bundled(name).as_posix().endswith(name)


def test_beside_the_package_or_inside_it(tmp_path):
    """As in a checkout, and as in a wheel."""
    package = tmp_path / "package"
    package.mkdir()
    shutil.copy(files.__file__, package)
    spec = importlib.util.spec_from_file_location("elsewhere", package / "files.py")
    elsewhere = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(elsewhere)
    (tmp_path / "fixtures").mkdir()
    assert elsewhere.bundled("fixtures/a") == tmp_path / "fixtures/a"
    (package / "fixtures").mkdir()
    (package / "fixtures/a").touch()
    assert elsewhere.bundled("fixtures/a") == package / "fixtures/a"
    assert elsewhere.bundled("fixtures/b") == tmp_path / "fixtures/b"
