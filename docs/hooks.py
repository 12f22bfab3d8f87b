"""Adds pages from outside of docs/ to the site, and turns links between files into links between pages."""

import json
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

ROOT = Path(__file__).parent.parent
PAGES = {
    "README.md": "index.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "CONTRIBUTING.md": "contributing.md",
    ".github/CODE_OF_CONDUCT.md": "code-of-conduct.md",
    "models/README.md": "models.md",
    "pretrained/english/README.md": "english.md",
    "pretrained/english/data_statement.md": "data-statement.md",
    "examples/README.md": "notebooks.md",
    **{
        f"examples/{path.name}": f"notebooks/{path.stem}.md" for path in sorted(ROOT.glob("examples/*.ipynb"))
    },
}
"""Paths in the repository, and the pages of the site that they become."""

BOOSTS = {"questions.md": 3, "first-model.md": 2, "changelog.md": 0.2}
"""Which pages stand first, and last, among those that a search finds."""


def on_config(config: MkDocsConfig) -> None:
    """Puts the version next to the name."""
    text = (ROOT / "elmo_tasks/__init__.py").read_text(encoding="utf-8")
    config.site_name += " " + re.search(r'(?m)^__version__ = "(.+)"$', text)[1]


def on_files(files: Files, config: MkDocsConfig) -> None:
    """Adds the pages, and the logo of `allennlp elmo serve`."""
    icon = ROOT / "elmo_tasks/page/assets/icon.svg"
    files.append(File.generated(config, "images/logo.svg", abs_src_path=str(icon)))
    for path, page in PAGES.items():
        text = (ROOT / path).read_text(encoding="utf-8")
        content = notebook_page(json.loads(text)) if path.endswith(".ipynb") else text
        files.append(File.generated(config, page, content=content))


def notebook_page(notebook: dict[str, Any]) -> str:
    """Returns a notebook as Markdown, with what it printed and drew."""
    parts = []
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```{'sh' if source.startswith('!') else 'python'}\n{source}\n```")
        for output in cell["outputs"]:
            if image := output.get("data", {}).get("image/png"):
                parts.append(f"![The figure that the code draws](data:image/png;base64,{image})")
            else:
                parts.append(f"```text\n{''.join(output['text'])}```")
    return "\n\n".join(parts)


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Turns links between files of the repository into links between pages of the site."""
    if page.file.src_uri in BOOSTS:
        page.meta["search"] = {"boost": BOOSTS[page.file.src_uri]}
    paths = {name: path for path, name in PAGES.items()}
    folder = posixpath.dirname(paths.get(page.file.src_uri, f"docs/{page.file.src_uri}"))

    def on_the_site(match: re.Match[str]) -> str:
        path = posixpath.normpath(posixpath.join(folder, match[1]))
        target = PAGES.get(path, path.removeprefix("docs/"))
        return f"]({posixpath.relpath(target, posixpath.dirname(page.file.src_uri) or '.')}"

    return re.sub(r"\]\((?!\w+:)([^)#\s]+)", on_the_site, markdown)
