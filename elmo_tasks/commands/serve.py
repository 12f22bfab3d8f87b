"""`allennlp elmo serve`: archives as a service over HTTP."""

import argparse
import re
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

from allennlp.common.checks import ConfigurationError, check_for_gpu
from allennlp.common.util import install_sigterm_handler

from elmo_tasks.commands.arguments import add_vector_arguments, read_bilm_encoder, read_static_vectors
from elmo_tasks.commands.base import DEFAULT, Verb, add_device_argument, positive
from elmo_tasks.serving.answers import Limits

if TYPE_CHECKING:
    from elmo_tasks.page.tabs import Tab
    from elmo_tasks.page.words import WordsInContext
    from elmo_tasks.serving.models import ServedModel

Served: TypeAlias = "tuple[dict[str, ServedModel], list[Tab]]"
_LOCAL = ("127.0.0.1", "::1", "localhost")
_LAST_PORT = 65_535
_LIMITS = ("max_bytes", "max_tokens", "max_queue", "timeout", "batch_size")


class Serve(Verb):
    """See the description."""

    name = "serve"
    help = "Answer over HTTP."
    description = (
        "Serve archives of the tasks, ensembles too, over HTTP. POST /predict/NAME takes a JSON object, or a "
        "list of objects, and answers what `allennlp predict` writes; /docs shows the fields, /health and "
        "/metrics (Prometheus) how the service is; / is a page for people, with a tab for each archive. "
        "Inputs that come at about the same time are one batch. "
        "Each model runs in this process, under uvicorn alone; with --replicas or --ray-address, in others, "
        "of Ray Serve, behind the same app. On SIGTERM, the requests in flight are answered first."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "archives",
            metavar="[NAME=]ARCHIVE",
            nargs="+",
            help="model.tar.gz, a path or URL, or the folder of a run; without NAME, it has that of its task",
        )
        parser.add_argument("--host", default="127.0.0.1", help="the address to listen at")
        parser.add_argument("--port", type=_port, default=8000, help="0: any that is free")
        add_device_argument(parser)
        parser.add_argument(
            "--token-file", type=Path, metavar="FILE", help="its content is asked for as a bearer token"
        )
        cluster = parser.add_argument_group("Ray (the extra ray)")
        cluster.add_argument("--replicas", type=positive, help="processes for each model")
        cluster.add_argument(
            "--ray-address", metavar="A", help="of a cluster that runs; else one is started here"
        )
        limits = parser.add_argument_group("limits")
        limits.add_argument(
            "--max-bytes", type=positive, default=Limits.max_bytes, help=f"of a request (else 413; {DEFAULT})"
        )
        limits.add_argument(
            "--max-tokens",
            type=positive,
            default=Limits.max_tokens,
            help=f"of an input (else 422; {DEFAULT})",
        )
        limits.add_argument(
            "--max-queue",
            type=positive,
            default=Limits.max_queue,
            help=f"inputs of a model that wait (else 429; {DEFAULT})",
        )
        limits.add_argument(
            "--timeout",
            type=positive,
            default=Limits.timeout,
            help=f"seconds for a request (else 408) and its answer (else 503; {DEFAULT})",
        )
        limits.add_argument(
            "--batch-size", type=positive, default=Limits.batch_size, help=f"inputs at once ({DEFAULT})"
        )
        page = parser.add_argument_group("the tab ELMo of the page")
        page.add_argument(
            "--corpus", type=Path, metavar="TEXT", help="to find neighbours in: a tokenised sentence a line"
        )
        add_vector_arguments(page)

    def run(self, arguments: argparse.Namespace) -> None:
        with _extra("serve"):
            import uvicorn

            from elmo_tasks.page.app import Page
            from elmo_tasks.serving.app import create_app
        token = _token(arguments.token_file)
        limits = Limits(**{name: getattr(arguments, name) for name in _LIMITS})
        install_sigterm_handler()
        family = socket.AF_INET6 if ":" in arguments.host else socket.AF_INET
        with (
            socket.create_server((arguments.host, arguments.port), family=family, backlog=1024) as listening,
            _models(arguments, limits, _owner(listening)) as (models, tabs),
        ):
            app = create_app(models, limits=limits, token=token)
            Page(app, tabs=tabs, limits=limits, words=_words(arguments, limits))
            config = uvicorn.Config(
                app, access_log=False, log_level="warning", timeout_graceful_shutdown=limits.timeout
            )
            host, port = listening.getsockname()[:2]
            if token is None and host not in _LOCAL:
                print("warning: all who reach this address can ask; see --token-file", file=sys.stderr)
            print(f"{address(host, port)}/ is the page: {', '.join(models)}", flush=True)
            print(f"{address(host, port)}/docs says how programs ask", flush=True)
            uvicorn.Server(config).run(sockets=[listening])


def address(host: str, port: int) -> str:
    """The URL of a socket's address, which may be one of IPv6."""
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


@contextmanager
def _models(arguments: argparse.Namespace, limits: Limits, owner: str) -> Iterator[Served]:
    """The models by their names, while they run, and their tabs; for `owner`, see `replicated`."""
    from elmo_tasks.page.tabs import Tab
    from elmo_tasks.serving.models import local_model, open_archives

    device = arguments.cuda_device
    check_for_gpu(device)
    local = arguments.replicas is None and arguments.ray_address is None
    archives = open_archives(arguments.archives, device if local else -1)
    tabs = [Tab.of(name, predictor) for name, (_, predictor) in archives.items()]
    if local:
        yield {name: local_model(predictor, limits) for name, (_, predictor) in archives.items()}, tabs
        return
    with _extra("ray"):
        from elmo_tasks.serving.replicas import replicated
    with replicated(
        archives,
        limits,
        owner=owner,
        replicas=arguments.replicas or 1,
        address=arguments.ray_address,
        device=device,
    ) as models:
        yield models, tabs


def _owner(listening: socket.socket) -> str:
    """Two services never listen at one place."""
    host, port = listening.getsockname()[:2]
    return f"{socket.gethostname()}-{host}-{port}"


def _words(arguments: argparse.Namespace, limits: Limits) -> "WordsInContext":
    from elmo_tasks.page.words import WordsInContext, read_corpus

    return WordsInContext(
        encoder=read_bilm_encoder(arguments),
        static=read_static_vectors(arguments),
        corpus=read_corpus(arguments.corpus) if arguments.corpus else [],
        max_tokens=limits.max_tokens,
    )


@contextmanager
def _extra(name: str) -> Iterator[None]:
    """What is imported within is there with an extra."""
    try:
        yield
    except ImportError as error:
        raise ConfigurationError(
            f"found no {error.name}; expected the extra {name}: make install EXTRAS={name}"
        ) from error


def _port(text: str) -> int:
    if not re.fullmatch("[0-9]{1,5}", text) or int(text) > _LAST_PORT:
        raise argparse.ArgumentTypeError(f"found {text!r}, expected 0 to {_LAST_PORT}")
    return int(text)


def _token(path: Path | None) -> str | None:
    if path is None:
        return None
    token = path.read_text(encoding="utf-8", errors="replace").strip()
    if not re.fullmatch(r"[!-~]+", token):
        raise ConfigurationError(f"{path}: expected a token of letters, digits and signs of ASCII")
    return token
