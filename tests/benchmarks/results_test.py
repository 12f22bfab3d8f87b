from benchmarks.results import Results
from elmo_tasks.evaluation.table import Table


def test_rows_are_known_again_and_shown(tmp_path, capsys):
    path = tmp_path / "results.csv"
    results = Results("ner", path, keep=True)
    for system, scores in (("ours", (60.0, 80.0)), ("elmo", (82.0, 82.0))):
        for seed, score in enumerate(scores):
            results.add(system, seed, "F1", score, 2.0)
    results = Results("ner", path, keep=True)
    results.add("ours", 0, "F1", 99.0)
    assert results.values("ours", "F1") == {0: 60.0, 1: 80.0}
    assert results.means().rows == [("F1", "ours", "70.00", "14.14", 2), ("F1", "elmo", "82.00", "0.00", 2)]
    assert results.gains("F1", "ours").rows == [("F1", "elmo", "ours", "40.0%")]
    results.add("elmo", 0, "rho", 0.1234)
    assert results.grid(["F1", "rho"]).rows == [
        ("ours", "70.00 (14.14)", ""),
        ("elmo", "82.00 (0.00)", "0.123"),
    ]
    assert results.metrics() == ["F1", "rho"]

    speed = Results("speed", path)
    speed.add_in_turn("tokens/s", [30.0, 80.0, 45.0], [10.0, 20.0, 10.0], at_least=4.5)
    speed.add_in_turn("GB", [1.0], [2.0], at_most=0.5)
    assert [row[-2:] for row in speed.ratios().rows] == [
        ("4 (3 to 4.5)", "at least 4.5: not reached"),
        ("0.5", "at most 0.5: reached"),
    ]
    assert "tokens/s: 45.00, 10.00, 4 (3 to 4.5)" in capsys.readouterr().out
    # A task that starts anew drops its own rows alone.
    Results("speed", path).add("ours", 0, "GB", 3.0)
    assert Table.read(path).column("task") == ["ner"] * 5 + ["speed"]
