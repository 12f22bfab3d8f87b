"""Adds pages from outside of docs/ to the site, and turns links between files into links between pages."""

import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    "CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "models/README.md": "models.md",
    "pretrained/english/README.md": "english.md",
    "pretrained/english/data_statement.md": "data-statement.md",
}
"""Paths in the repository, and the pages of the site that they become."""


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pages."""
    root = Path(config.docs_dir).parent
    for path, page in PAGES.items():
        files.append(File.generated(config, page, content=(root / path).read_text(encoding="utf-8")))


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links between files of the repository into links between pages of the site."""
    if page.file.src_uri == "questions.md":
        page.meta["search"] = {"boost": 3}  # first among what a search finds
    paths = {name: path for path, name in PAGES.items()}
    folder = posixpath.dirname(paths.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def on_the_site(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        target = PAGES.get(path, path.removeprefix("docs/"))
        return f"]({posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or '.')}"

    return re.sub(r"\]\((?!\w+:)([^)#\s]+)", on_the_site, markdown)
