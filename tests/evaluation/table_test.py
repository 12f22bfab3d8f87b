import csv
import io

import pytest

from elmo_tasks.evaluation.table import Table

TABLE = Table(("name", "score", "count"))
TABLE.add("a,b", 1 / 3, 2)
TABLE.add("c | d", float("nan"), None)
TABLE.add('"quoted"', 0.5, 10)


def test_csv_reads_back_the_same():
    header, *rows = csv.reader(io.StringIO(TABLE.csv()))
    assert tuple(header) == TABLE.columns
    assert [row[0] for row in rows] == TABLE.column("name")
    assert float(rows[0][1]) == 1 / 3
    assert rows[1][1:] == ["nan", ""]


def test_markdown():
    assert TABLE.markdown().splitlines() == [
        "| name | score | count |",
        "| --- | ---: | ---: |",
        "| a,b | 0.3333 | 2 |",
        "| c \\| d | nan |  |",
        '| "quoted" | 0.5000 | 10 |',
    ]


def test_where():
    assert TABLE.where("count", 10, None).column("name") == ["c | d", '"quoted"']


def test_rows_have_a_cell_a_column():
    with pytest.raises(ValueError, match="found a row of 2 cells, expected 3: name, score, count"):
        TABLE.add("x", 1)
    with pytest.raises(ValueError, match="found a row of 1 cells"):
        Table(("a", "b"), [("x",)])
