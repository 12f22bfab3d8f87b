import gc
import json
import logging
import os
import signal
import subprocess
import sys
import tarfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock

# Before PyTorch is loaded: idle threads sleep. Otherwise the threads of an operation that waits for a
# busy core keep another one busy, and tests with several threads take ten times as long next to others.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")
# A process that a shell put into the background ignores interrupts, and so would its children.
signal.signal(signal.SIGINT, signal.default_int_handler)
# Packing archives would take more than half of the time of small trainings.
tarfile.TarFile.gzopen = partial(tarfile.TarFile.gzopen, compresslevel=0)

from elmo_tasks.common.files import bundled
from elmo_tasks.common.machine import cpu_count

SMALL_NER = {
    "model.hidden_sizes": [32, 16],
    "data_loader.batch_sampler.batch_size": 16,
    "model.dropout": 0.1,
    "trainer.num_epochs": 4,
    "trainer.patience": None,
    "trainer.optimizer.lr": 0.02,
}
"""Overrides that make a NER config train in seconds."""
TINY_ELMO = {
    f"model.elmo.{name}_file": str(bundled(f"fixtures/elmo/{file}").resolve())
    for name, file in (("options", "options.json"), ("weight", "weights.safetensors"))
}
"""The random biLM of the fixtures, where any will do."""
SMALL_NER_ELMO = SMALL_NER | TINY_ELMO

LONG_FILES = ["readme", "processors", "kill", "examples", "stock_commands", "training_configs"]
"""They come first, so that no process waits for them."""
SPLIT_FILES = ["readme", "processors", "examples"]
"""Their tests share no fixtures and run on any process."""
RAY_FILES = ["replicas", "on_ray"]
"""One process runs them all, on one Ray. It leaves threads that crash processes forked after it."""
LAST_FOLDERS = ["coref", "data", "evaluation", "modules", "ner", "pipeline", "squad", "srl", "vectors"]
"""They fork no process, so that they may run after Ray in the same process."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """Returns the number of cores: more processes take longer, since each collects all tests."""
    return min(cpu_count(), 8)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Returns the scheduler of `--dist loadfile`, with the tests on Ray as one file and some files split."""
    from xdist.scheduler import LoadFileScheduling

    class Scheduler(LoadFileScheduling):
        def _split_scope(self, nodeid: str) -> str:
            file = super()._split_scope(nodeid)
            name = Path(file).name.removesuffix("_test.py")
            return "Ray" if name in RAY_FILES else nodeid if name in SPLIT_FILES else file

    return Scheduler(config, log) if config.getoption("dist") == "loadfile" else None


@pytest.fixture(autouse=True)
def no_log_in_the_folder_of_a_run() -> Iterator[None]:
    """AllenNLP may leave the handler of a training's log, whose folder the next test lacks."""
    yield
    for logger in (logging.getLogger(), logging.getLogger("allennlp"), logging.getLogger("tqdm")):
        for handler in list(logger.handlers):
            if isinstance(handler, logging.FileHandler) and handler.baseFilename != os.devnull:
                logger.removeHandler(handler)
                handler.close()


def environment() -> dict[str, str]:
    """Returns an environment with one thread a process, since tests run in parallel, and a quiet log."""
    return os.environ | {"OMP_NUM_THREADS": "1", "ALLENNLP_LOG_LEVEL": "WARNING"}


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Skips tests of a GPU where there is none, and orders the files."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("cuda"):
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))
    order = [*LONG_FILES, "", *RAY_FILES, *LAST_FOLDERS]

    def rank(item: pytest.Item) -> int:
        name = item.path.name.removesuffix("_test.py")
        folder = item.path.relative_to(Path(__file__).parent).parts[0]
        return order.index(next((each for each in (name, folder) if each in order), ""))

    items.sort(key=rank)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Switches the garbage collector off while tests are collected."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Freezes the modules and tests so that later garbage collections skip them."""
    gc.freeze()


def pytest_runtest_teardown() -> None:
    """
    Resets the log. A training of AllenNLP leaves handlers that write to the closed stdout and to a file in
    the folder of the test, a level at which the values of blocks are logged, and its own kind of progress
    bars. A benchmark leaves the log disabled.
    """
    if (of_allennlp := sys.modules.get("allennlp.common.logging")) is not None:
        of_allennlp.FILE_FRIENDLY_LOGGING = False
    root = logging.getLogger()
    root.setLevel(logging.WARNING)
    logging.disable(logging.NOTSET)
    for handler in root.handlers[:]:
        if type(handler) in (logging.StreamHandler, logging.FileHandler):
            root.removeHandler(handler)
            handler.close()


@contextmanager
def command_process() -> Iterator[None]:
    """Makes this process the command `allennlp` inside the block, with the changes that the command gets."""
    from elmo_tasks import suite
    from elmo_tasks.compat import running

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(running, "setattr", patch.setattr, raising=False)
        suite.start_command()
        yield


@pytest.fixture
def in_command() -> Iterator[None]:
    """Makes this process the command `allennlp`, see `command_process`."""
    with command_process():
        yield


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Limits PyTorch to one thread: with several, the last digits of two runs may differ."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The files of a tiny biLM by their keys in a config, not to be changed."""
    from tests.elmo.files import make_block

    return make_block(tmp_path_factory.mktemp("bilm"))


@pytest.fixture(scope="session")
def elsewhere(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder outside of the project."""
    return tmp_path_factory.mktemp("elsewhere")


@pytest.fixture(scope="session")
def script(elsewhere: Path) -> Callable[..., subprocess.CompletedProcess]:
    """Runs the installed `allennlp` script outside of the project; it takes seconds to start."""
    path = Path(sys.executable).with_name("allennlp")

    def run(*arguments: Any) -> subprocess.CompletedProcess:
        # Through the interpreter: the script's first line cannot name a path with blanks.
        command = [sys.executable, str(path), *map(str, arguments)]
        return subprocess.run(command, cwd=elsewhere, env=environment(), capture_output=True, text=True)

    return run


@pytest.fixture(scope="session")
def allennlp(elsewhere: Path) -> Callable[..., str]:
    """Runs `allennlp` outside of the project, in a fork of a process that has imported it."""
    from tests.forked import Command

    def run(*arguments: Any, status: int = 0) -> str:
        command = Command(arguments, elsewhere / "log", partial(os.chdir, elsewhere))
        code = command.finish()
        shown = command.log.read_text()
        assert code == status, shown
        return shown

    return run


@pytest.fixture(scope="session")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a run of a tiny NER model, with its `model.tar.gz`; it is not to be changed."""
    from allennlp.models.archival import archive_model

    from tests.ner.archives import write_run

    folder = tmp_path_factory.mktemp("run") / "run"
    write_run(folder, seed=0, bilm=bundled("fixtures/elmo").resolve())
    archive_model(folder)
    return folder


@pytest.fixture(scope="session")
def ner_config() -> Path:
    return bundled("training_configs/ner_elmo.jsonnet").resolve()


@pytest.fixture(scope="session")
def trained_ner(
    allennlp: Callable[..., str],
    ner_config: Path,
    tmp_path_factory: pytest.TempPathFactory,
    pytestconfig: pytest.Config,
) -> Path:
    """The folder of a finished run of a small NER model with ELMo; the processes of pytest-xdist share it."""
    base = tmp_path_factory.getbasetemp()
    folder = (base.parent if hasattr(pytestconfig, "workerinput") else base) / "trained_ner"
    with FileLock(f"{folder}.lock"):
        if not (folder / "model.tar.gz").exists():
            allennlp("train", ner_config, "-s", folder, "-o", json.dumps(SMALL_NER_ELMO), "--force")
    return folder


@pytest.fixture(scope="session")
def cluster_address() -> Iterator[str]:
    """The address of a Ray cluster in processes of its own; nothing is connected to it."""
    pytest.importorskip("ray", reason="Ray is not installed: make install EXTRAS='ray'")
    from ray.cluster_utils import Cluster

    node = {"num_cpus": 2, "include_dashboard": False, "object_store_memory": 1 << 27}
    cluster = Cluster(initialize_head=True, head_node_args=node)
    yield cluster.address
    cluster.shutdown()
