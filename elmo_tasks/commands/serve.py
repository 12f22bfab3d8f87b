"""`allennlp elmo serve`: archives as a service over HTTP."""

import errno
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from allennlp.common.checks import ConfigurationError
from allennlp.common.util import install_sigterm_handler

from elmo_tasks.commands.arguments import VectorArguments
from elmo_tasks.commands.base import (
    ArgumentGroup,
    Input,
    Positive,
    Verb,
    flag,
    number,
    option,
    positional,
    titled,
)
from elmo_tasks.common.errors import errors_as
from elmo_tasks.common.machine import chosen_device, gpu_index
from elmo_tasks.common.strict_params import ConfigError
from elmo_tasks.serving.answers import Limits

if TYPE_CHECKING:
    from elmo_tasks.page.tabs import Tab
    from elmo_tasks.page.words import WordsInContext
    from elmo_tasks.serving.models import ServedModel

_LOCAL = ("127.0.0.1", "::1", "localhost")
_LAST_PORT = 65_535

Port = Annotated[int, number(int, f"a port from 0 to {_LAST_PORT}", lambda value: 0 <= value <= _LAST_PORT)]


class ReplicaArguments(ArgumentGroup):
    replicas: Positive | None = option("processes for each model")
    ray_address: str | None = option(
        "address of a running cluster (default: one is started here)", metavar="A"
    )


class LimitArguments(ArgumentGroup):
    max_bytes: Positive = option("bytes of a request (more: 413)", Limits.max_bytes)
    max_tokens: Positive = option("tokens of an input (more: 422)", Limits.max_tokens)
    max_queue: Positive = option("inputs that wait for a model (more: 429)", Limits.max_queue)
    max_connections: Positive = option("open connections (more: 503)", Limits.max_connections)
    max_connections_of_client: Positive = option(
        "open connections from one address, such as a proxy's (more: 503)", Limits.max_connections_of_client
    )
    timeout: Positive = option(
        "seconds to receive a request (longer: 408) and to answer it (longer: 503)", Limits.timeout
    )
    batch_size: Positive = option("inputs in a batch", Limits.batch_size)


class PageArguments(ArgumentGroup):
    corpus: Input | None = option(
        "the text in which the page finds neighbours: a tokenised sentence a line, 100,000 words at most; it "
        "is read before the first answer",
        metavar="TEXT",
    )
    vectors: VectorArguments

    def words(self, limits: Limits) -> "WordsInContext":
        from elmo_tasks.page.words import WordsInContext, read_corpus

        encoder, static = self.vectors.encoders()
        return WordsInContext(
            encoder=encoder,
            static=static,
            corpus=read_corpus(self.corpus) if self.corpus else [],
            max_tokens=limits.max_tokens,
        )


class Serve(Verb):
    name = "serve"
    help = "Answer over HTTP."
    description = (
        "Serves archives of the tasks, also ensembles, over HTTP. POST /predict/NAME takes a JSON object, or "
        "a list of objects, and returns what `allennlp predict` writes. /docs lists the fields, /health and "
        "/metrics (Prometheus) show the state of the service, and / is a page with a tab for each archive. "
        "Inputs that arrive at about the same time are one batch. The models run in this process, under "
        "uvicorn alone; with --replicas or --ray-address they run in processes of Ray Serve, behind the same "
        "app. On SIGTERM, the requests in flight are answered first."
    )

    archives: list[str] = positional(
        "[NAME=]ARCHIVE",
        "model.tar.gz, a path or URL, or the folder of a run; NAME is by default the name of its task. "
        "Without any, the models that come trained are served",
        nargs="*",
    )
    host: str = option("the address on which the service listens", "127.0.0.1")
    port: Port = option("the port; 0 takes any that is free", 8000)
    token_file: Path | None = option(
        "a file with the bearer token that clients must send (default: all are answered)", metavar="FILE"
    )
    min_probability: float = option(
        "leave out labels, entities and answers with a lower probability", 0.0, metavar="P"
    )
    cors: list[str] = option(
        "the origin of pages of others that may ask, such as https://example.org; several times for several",
        default=[],
        metavar="ORIGIN",
        action="append",
    )
    root_path: str = option(
        "the path below which a proxy serves this service and which it removes, such as /elmo",
        "",
        metavar="PATH",
    )
    access_log: bool = flag("print a line for each request, with the text that a link to the page holds")
    ray: ReplicaArguments = titled("Ray (the extra ray)")
    limits: LimitArguments = titled("limits")
    page: PageArguments = titled("the tab ELMo of the page")

    def run(self) -> None:
        print(f"loading {', '.join(self.archives) or 'the models that come trained'}", file=sys.stderr)
        with _extra("serve"):
            from elmo_tasks.page.app import Page
            from elmo_tasks.serving.app import create_app, make_server
        token = None
        if self.token_file is not None:
            token = self.token_file.read_text(encoding="utf-8", errors="replace").strip()
            if not re.fullmatch(r"[!-~]+", token):
                problem = "must hold a token of ASCII letters, digits and signs"
                raise ConfigurationError(f"{self.token_file} {problem}")
        limits = Limits(**asdict(self.limits))
        install_sigterm_handler()
        with (
            self._listening() as listening,
            self._models(limits, listening.getsockname()[:2]) as (models, tabs),
        ):
            app = create_app(models, limits=limits, token=token, origins=self.cors)
            root_path = f"/{self.root_path.strip('/')}".rstrip("/")
            Page(app, tabs=tabs, limits=limits, words=self.page.words(limits), root_path=root_path)
            host, port = listening.getsockname()[:2]
            if token is None and host not in _LOCAL:
                print(
                    "warning: everyone who reaches this address is answered; --token-file asks for a token",
                    file=sys.stderr,
                )
            print(f"{address(host, port)}/ is the page: {', '.join(models)}", flush=True)
            print(f"{address(host, port)}/docs says how programs ask", flush=True)
            server = make_server(app, limits, access_log=self.access_log, root_path=root_path)
            server.run(sockets=[listening])

    def _listening(self) -> socket.socket:
        family = socket.AF_INET6 if ":" in self.host else socket.AF_INET
        try:
            return socket.create_server((self.host, self.port), family=family, backlog=1024)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            raise ConfigError(f"port {self.port} is in use", remedy="--port takes another one") from error

    @contextmanager
    def _models(
        self, limits: Limits, address: tuple[str, int]
    ) -> Iterator[tuple[dict[str, "ServedModel"], list["Tab"]]]:
        from elmo_tasks.page.tabs import Tab
        from elmo_tasks.serving.models import local_model, open_archives, trained_models

        device_name, ray = self.page.vectors.bilm.device, self.ray
        chosen_device(device_name, option="--device")
        device = gpu_index(device_name, option="--device")
        local = ray.replicas is None and ray.ray_address is None
        names = self.archives or trained_models()
        archives = open_archives(names, device if local else -1, self.min_probability)
        tabs = [Tab.of(name, predictor, archive=archive) for name, (archive, predictor) in archives.items()]
        if local:
            yield {name: local_model(predictor, limits) for name, (_, predictor) in archives.items()}, tabs
            return
        with _extra("ray"):
            from elmo_tasks.serving.replicas import replicated
        with replicated(
            archives,
            limits,
            owner="-".join(map(str, (socket.gethostname(), *address))),  # two never listen at one address
            replicas=ray.replicas or 1,
            address=ray.ray_address,
            device=device,
        ) as models:
            yield models, tabs


def address(host: str, port: int) -> str:
    """Writes a socket's address as a URL; IPv6 needs brackets."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _extra(name: str) -> AbstractContextManager[None]:
    remedy = f"install the extra {name}: make install EXTRAS={name}"
    return errors_as(ConfigError, "a package is missing", ImportError, remedy=remedy)
