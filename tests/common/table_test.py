from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.table import Table
from tests.errors import error_of

TABLE = Table(("name", "score", "count"))
TABLE.add("a,b", 1 / 3, 2)
TABLE.add("c | d", float("nan"), None)
TABLE.add('"quoted"', 0.5, 10)


def test_reads_what_it_wrote(tmp_path):
    """Also lines within a cell, and text that only looks like a number."""
    table = Table(("name", "score"), [("two\nlines", 1 / 3), ("007", 1e-9), ("1_0", None), ("-3", -3)])
    (tmp_path / "table.csv").write_text(table.csv())
    read = Table.read(tmp_path / "table.csv")
    assert read.columns == table.columns
    assert read.rows == [*table.rows[:3], (-3, -3)]


def test_a_row_that_is_too_short(tmp_path):
    path = tmp_path / "table.csv"
    path.write_text("a,b\n1,2\n3\n")
    assert error_of(ElmoError, Table.read, path).startswith(f"{path}, line 3: ")


def test_markdown():
    assert TABLE.markdown().splitlines() == [
        "| name | score | count |",
        "| --- | ---: | ---: |",
        "| a,b | 0.3333 | 2 |",
        "| c \\| d | nan |  |",
        '| "quoted" | 0.5000 | 10 |',
    ]


def test_where_keeps_the_rows_that_have_these_values():
    assert TABLE.where("count", 10, None).column("name") == ["c | d", '"quoted"']
