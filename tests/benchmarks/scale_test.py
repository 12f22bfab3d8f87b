import pytest

from benchmarks.scale import Measured, lines_of, row

MB = 10**6


def runs_of(command: str) -> list[Measured]:
    """Without Ray 1,000 tokens/s after 10 s; with it 800 after 20 s; with two workers 1,500 after 24 s."""
    speeds = {None: (10, 1000), 1: (20, 800), 2: (24, 1500)}
    return [
        Measured(
            command, tokens, workers, start + tokens / rate, tokens / rate, 500 * MB, tokens / rate, 700 * MB
        )
        for tokens in (1000, 12_000, 24_000)
        for workers, (start, rate) in speeds.items()
    ]


def test_a_row_a_run():
    plain, one, two = [run for run in runs_of("embed") if run.tokens == 12_000]
    assert [row(plain), row(one._replace(overhead=0.59)), row(two._replace(speed_up=1.875))] == [
        ("embed", "12,000", "none", "22.0 s", "", "", "", "1,000 (and the start)", "500 MB", ""),
        ("embed", "12,000", 1, "35.0 s", "59%", "15.0 s", "", "800", "500 MB", "700 MB"),
        ("embed", "12,000", 2, "32.0 s", "", "8.0 s", "1.88", "1,500", "500 MB", "700 MB"),
    ]


@pytest.mark.parametrize(("late", "off"), [(0.0, "0%"), (7.0, "20%")])
def test_the_start_and_the_speed_after_it(late, off):
    runs = runs_of("embed") + runs_of("predict")
    runs = [one._replace(wall=one.wall + late) if one[:3] == ("predict", 12_000, 1) else one for one in runs]
    assert lines_of(runs).rows == [
        ("embed", "none", "10.0 s", "1,000", "", "", "0%"),
        ("embed", 1, "20.0 s", "800", "25%", "1.00", "0%"),
        ("embed", 2, "24.0 s", "1,500", "", "1.88", "0%"),
        ("predict", "none", "10.0 s", "1,000", "", "", "0%"),
        ("predict", 1, "20.0 s", "800", "25%", "1.00", off),
        ("predict", 2, "24.0 s", "1,500", "", "1.88", "0%"),
    ]
