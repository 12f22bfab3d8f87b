"""The routes of the page: `/`, `/show/NAME` for each model, and `/elmo`."""

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from urllib.parse import parse_qs, urlencode

from allennlp.common.checks import ConfigurationError
from fastapi import FastAPI, Request, Response
from fastapi.responses import HTMLResponse, RedirectResponse
from fastapi.staticfiles import StaticFiles
from starlette.exceptions import HTTPException

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.page.tabs import Tab
from elmo_tasks.page.templates import ASSETS, HERE, template
from elmo_tasks.page.words import WordsInContext
from elmo_tasks.serving.answers import Limits
from elmo_tasks.serving.app import read_body, until_gone
from elmo_tasks.serving.models import Queue, ServedModel, in_time

FORM = "application/x-www-form-urlencoded"
MAX_ADDRESS = 4000
"""The longest permanent link, in characters."""
_POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; form-action 'self'; "
    "base-uri 'none'; frame-ancestors 'none'"
)
# Swagger UI has styles and pictures of its own, and asks the service.
_DOCS_POLICY = (
    _POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'").replace(
        "img-src 'self'", "img-src 'self' data:"
    )
    + "; connect-src 'self'"
)
HEADERS = {
    "Content-Security-Policy": _POLICY,
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
}
_READING_METHODS = ["GET", "HEAD"]
_SENTENCES = {
    413: "The text is too long.",
    429: "Many texts are waiting to be read. Please try again in a moment.",
    500: "The model failed on this text. The log of the service says why.",
    503: "The answer took too long. Please try again, or take a shorter text.",
}
"""Errors in the words of a reader, by their status."""
Form = dict[str, str]
Ask = Callable[[Form], Awaitable[dict[str, object]]]
"""Answers a form with the values that the template shows."""


class Page:
    """
    The page of a service, which adds itself to an app of `create_app`; `words` are the tab of the biLM. Links
    begin with `root_path`.
    """

    def __init__(
        self,
        app: FastAPI,
        *,
        tabs: list[Tab],
        limits: Limits,
        words: WordsInContext | None = None,
        root_path: str = "",
    ) -> None:
        self._limits = limits
        self._root = root_path
        self._links = [(f"/show/{tab.name}", tab.about.title, tab.name) for tab in tabs]
        if words is not None:
            self._links.append(("/elmo", "Words in context", "the biLM itself"))
        self._tabs = tabs
        self._words = words
        self._asks: dict[str, tuple[Ask, Tab | WordsInContext]] = {}
        self._live: dict[str, dict[str, object]] = {}
        """The answers to the first example of each tab, by its path."""
        app.mount("/assets", StaticFiles(directory=ASSETS))
        app.api_route("/", methods=_READING_METHODS, include_in_schema=False)(self._overview)
        app.api_route("/docs", methods=_READING_METHODS, include_in_schema=False)(self._docs)
        for tab in tabs:
            self._add(
                app, f"/show/{tab.name}", "model.html", _ask_model(app.state.models[tab.name], tab), tab
            )
        app.api_route("/show/{name:path}", methods=_READING_METHODS, include_in_schema=False)(self._no_model)
        if words is not None:
            self._add(app, "/elmo", "elmo.html", _ask_words(words, limits), words)

    async def _overview(self) -> Response:
        return await self._render_overview()

    async def _docs(self) -> Response:
        response = self._render("docs.html", "/docs", {})
        response.headers["Content-Security-Policy"] = _DOCS_POLICY
        return response

    async def _no_model(self, name: str) -> Response:
        return await self._render_overview(f"The service has no model {name!r}. It has these:", 404)

    async def _render_overview(self, error: str | None = None, status: int = 200) -> Response:
        await asyncio.gather(*map(self._answer_example, self._asks))
        values = {"tabs": self._tabs, "live": self._live, "words": self._words}
        return self._render("index.html", "/", {**values, "error": error}, status)

    async def _answer_example(self, path: str) -> None:
        """Keeps the answer to the first example of a tab; a model that is busy or fails shows none."""
        ask, tab = self._asks[path]
        if tab.examples and path not in self._live:
            with suppress(HTTPException, ConfigurationError, ElmoError):
                self._live[path] = await ask(tab.examples[0])

    def _add(self, app: FastAPI, path: str, name: str, ask: Ask, tab: Tab | WordsInContext) -> None:
        self._asks[path] = ask, tab
        # The words of the longest text that was answered, and the seconds that it took
        longest = (100, tab.about.seconds if isinstance(tab, Tab) else 0.0)

        def render(
            form: Form,
            status: int = 200,
            *,
            answer: dict[str, object] | None = None,
            error: str | None = None,
        ) -> Response:
            words, seconds = longest
            pace = round(1000 * seconds / words)
            shown = {"form": form, "answer": answer, "error": error, "tab": tab, "pace": pace}
            return self._render(name, path, {"link": self._link(path, form), **shown}, status)

        async def show(request: Request, form: Form) -> Response:
            nonlocal longest
            start = time.perf_counter()
            try:
                answer = await until_gone(request, ask(form)) if form else None
                words = len(" ".join(form.values()).split())
                longest = max(longest, (words, time.perf_counter() - start))
                return render(form, answer=answer)
            except HTTPException as error:
                return render(form, error.status_code, error=_sentence(error))
            except (ConfigurationError, ElmoError) as error:
                return render(form, 422, error=str(error))

        async def post(request: Request) -> Response:
            """Redirects to the permanent link of the answer, unless the form is too long for one."""
            content_type = request.headers.get("content-type", FORM)
            if content_type.partition(";")[0].strip().lower() != FORM:
                return render({}, 415, error=f"a form has the content type {FORM}, not {content_type}")
            form = _parsed_form(await read_body(request, self._limits))
            link = self._link(path, form)
            return await show(request, form) if link is None else RedirectResponse(link, 303)

        async def get_or_post(request: Request) -> Response:
            try:
                if request.method == "POST":
                    return await post(request)
                form = _parsed_form(request.scope["query_string"])
            except HTTPException as error:
                return render({}, error.status_code, error=_sentence(error))
            return await show(request, form)

        app.api_route(path, methods=[*_READING_METHODS, "POST"], include_in_schema=False)(get_or_post)

    def _render(self, name: str, path: str, values: dict[str, object], status: int = 200) -> Response:
        about = {"root": self._root, "path": path, "links": self._links, "limits": self._limits}
        return HTMLResponse(template(name).render(about | values), status, HEADERS)

    def _link(self, path: str, form: Form) -> str | None:
        address = f"{self._root}{path}?{urlencode(form)}"
        return address if len(address) <= MAX_ADDRESS else None


def _sentence(error: HTTPException) -> str:
    return _SENTENCES.get(error.status_code, f"The model cannot read this text: {error.detail}.")


def _parsed_form(content: bytes) -> Form:
    """Parses a form in URL encoding of UTF-8. The first of several values of a field counts."""
    try:
        fields = parse_qs(content.decode("ascii"), errors="strict")
    except ValueError as error:
        raise HTTPException(400, f"the form is not URL encoding of UTF-8: {error}") from error
    return {field: texts[0] for field, texts in fields.items()}


def _ask_model(model: ServedModel, tab: Tab) -> Ask:
    name = f"tasks/{tab.task}.html"
    template_name = name if (HERE / "templates" / name).exists() else None
    # Each tab has its own thread, so that none waits for another.
    thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="form")

    async def ask(form: Form) -> dict[str, object]:
        explained = tab.explains and "explain" in form
        with model.slots(1):
            async with in_time(model.limits):
                content = await asyncio.get_running_loop().run_in_executor(thread, tab.content, form)
                (line,) = await model.lines([content], explain=explained)
        answer = json.loads(line)
        if not explained:
            answer = {"result": answer, "explanations": []}
        return answer | {
            "json": json.dumps(answer["result"], ensure_ascii=False, indent=1),
            "template": template_name,
            "content": content,
        }

    return ask


def _ask_words(words: WordsInContext, limits: Limits) -> Ask:
    queue = Queue(limits=limits)

    async def ask(form: Form) -> dict[str, object]:
        with queue.slots(1):
            async with in_time(limits):
                return await asyncio.to_thread(words, form)

    return ask
