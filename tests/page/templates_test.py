"""Pages of HTML."""

import pytest
from jinja2 import UndefinedError

from elmo_tasks.page.templates import page_template


def test_values_are_escaped_and_filtered(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("<p>{{ text | loud }}</p>")
    page = page_template(path, loud=str.upper).render(text="<b>&")
    assert page == "<p>&lt;B&gt;&amp;</p>"


def test_a_value_that_is_missing_is_an_error(tmp_path):
    path = tmp_path / "page.html"
    path.write_text("{{ text }}")
    with pytest.raises(UndefinedError, match="text"):
        page_template(path).render()
