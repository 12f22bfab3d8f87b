import io
import math

import matplotlib

from elmo_tasks.common.table import Table
from elmo_tasks.evaluation.plots import bars, curves, heat_map, save


def test_dollars_are_no_formulas():
    """Matplotlib takes what stands between two of them for one."""
    names = ["$$", "$0-$10"]
    table = Table(("test", "vectors", "score"))
    table.add("$$", "$x$", 0.25)
    for figure in (
        heat_map([[0.1, 0.2], [0.3, 0.4]], rows=names, columns=names),
        bars(table, groups="test", bars="vectors", heights="score"),
    ):
        file = io.BytesIO()
        with matplotlib.rc_context({"svg.fonttype": "none"}):
            figure.savefig(file, format="svg")
        assert "$$" in file.getvalue().decode()


def test_bars_are_as_high_as_their_scores():
    table = Table(("test", "vectors", "score"))
    table.add("one", "layer 0", 0.25)
    table.add("two", "layer 0", -0.5)
    table.add("one", "layer 1", 0.75)
    table.add("two", "layer 1", math.nan)
    figure = bars(table, groups="test", bars="vectors", heights="score")
    (axes,) = figure.axes
    heights = [[bar.get_height() for bar in bars] for bars in axes.containers]
    assert heights[0] == [0.25, -0.5]
    assert heights[1][0] == 0.75
    assert math.isnan(heights[1][1])
    assert [label.get_text() for label in axes.get_xticklabels()] == ["one", "two"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["layer 0", "layer 1"]


def test_heat_map_writes_its_numbers():
    values = [[0.25, 0.75], [math.nan, 1.0]]
    figure = heat_map(values, rows=["ner", "sst"], columns=["layer 0", "layer 1"])
    assert [text.get_text() for text in figure.axes[0].texts] == ["0.25", "0.75", "1.00"]
    assert [label.get_text() for label in figure.axes[0].get_yticklabels()] == ["ner", "sst"]


def test_heat_map_around_a_middle():
    """Numbers that are equally far from it have colours that are equally strong."""
    figure = heat_map([[0.25, 0.5], [math.nan, 0.75]], rows=["ner", "sst"], columns=["a", "b"], middle=0.5)
    assert figure.axes[0].images[0].get_clim() == (0.25, 0.75)
    even = heat_map([[0.5]], rows=["ner"], columns=["a"], middle=0.5)
    assert even.axes[0].images[0].get_clim() == (0.4, 0.6)


def test_curves_go_through_their_points():
    table = Table(("part", "model", "score", "deviation"))
    table.add(0.01, "one", 0.25, 0.125)
    table.add(0.01, "two", 0.5, None)
    table.add(1.0, "one", 0.75, 0.25)
    table.add(1.0, "two", None, None)
    figure = curves(table, lines="model", x="part", heights="score", errors="deviation")
    (axes,) = figure.axes
    one, two = axes.containers
    assert one.lines[0].get_xydata().tolist() == [[0.01, 0.25], [1.0, 0.75]]
    (bars_of_one,) = one.lines[2]
    assert [bar[:, 1].tolist() for bar in bars_of_one.get_segments()] == [[0.125, 0.375], [0.5, 1.0]]
    assert two.lines[0].get_xydata()[0].tolist() == [0.01, 0.5]
    assert axes.get_xscale() == "log"
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0.01", "1"]
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["one model", "two model"]


def test_labels_in_a_script_that_no_font_has(tmp_path, caplog):
    """A private character, which no font has."""
    figure = heat_map([[0.5]], rows=["\ue123 정치"], columns=["IT"])
    save(figure, tmp_path / "a.svg")
    assert "\ue123 정치" in (tmp_path / "a.svg").read_text(encoding="utf-8")
    assert not caplog.text
    save(figure, tmp_path / "a.png")
    assert caplog.text.count("a.png: no font") == 1
    caplog.clear()
    save(heat_map([[0.5]], rows=["one"], columns=["IT"]), tmp_path / "b.svg")
    assert "<text" not in (tmp_path / "b.svg").read_text()
    assert not caplog.text
