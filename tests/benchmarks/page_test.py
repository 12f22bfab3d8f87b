"""docs/results.md and the scores in README.md are those of docs/results/."""

import re
from importlib.metadata import version

import pytest
from scipy.stats import ttest_ind

from benchmarks.page import PAGE, PROJECT, RESULTS, TEMPLATE, rendered, typed_numbers
from benchmarks.page_tables import PageTables
from benchmarks.paper import read_experiments
from benchmarks.results import Results
from benchmarks.scores import Score, p_of_one, read_scores
from elmo_tasks.data.input_files import InputError
from elmo_tasks.evaluation.table import Table
from elmo_tasks.training.experiments import spread

COMMANDS = {experiment.name: experiment.command for experiment in read_experiments().values()}


@pytest.fixture
def tables(tmp_path):
    return PageTables(results=tmp_path, commands=COMMANDS)


def test_the_page_is_made_of_the_files():
    assert rendered(RESULTS, COMMANDS) == PAGE.read_text(encoding="utf-8"), (
        "python -m benchmarks paper --page"
    )


def test_every_experiment_is_on_the_page():
    template = TEMPLATE.read_text(encoding="utf-8")
    for experiment in read_experiments().values():
        for file in experiment.files:
            assert f'"{experiment.kept_as(file).partition(".")[0]}"' in template, experiment.name


def test_the_scores_of_the_readme():
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| \[.*\| `(\w+)`, .*, ([\w ]+) \|.* \| ([\d.]+) \| ([\d.]+) \|$", readme)
    assert [name for name, *_ in rows] == ["ner", "sst", "snli", "srl", "coref", "squad"]
    for name, metric, *scores in rows:
        known = read_scores(RESULTS / f"{name}.csv", metric)
        assert scores == [f"{known[system].mean:.1f}" for system in ("ours", "elmo")], name


@pytest.mark.parametrize(
    ("page", "data", "name", "metric"),
    [
        ("ner", "Universal NER", "ner", "F1"),
        ("ner", "W-NUT 2017", "wnut", "F1"),
        ("sst", "SST-5 dev, 2,000 trees", "sst", "accuracy"),
        ("sst", "SST-5 dev, all", "sst_all", "accuracy"),
        ("snli", "SNLI dev", "snli", "accuracy"),
        ("srl", "PropBank", "srl", "F1"),
        ("coref", "LitBank", "coref", "average F1"),
        ("coref", "OntoGUM", "ontogum", "average F1"),
        ("squad", "SQuAD, 401 questions", "squad", "F1"),
    ],
)
def test_the_scores_on_the_page_of_a_task(page, data, name, metric):
    text = (PROJECT / f"docs/{page}.md").read_text(encoding="utf-8")
    row = rf"(?m)^\| {data}.*, (\d+(?: and \d+)?) seeds?\b[^|]*?(?:, version ([\d.]+))? \| (.*) \| (.*) \|$"
    [(seeds, of_version, *cells)] = re.findall(row, text)
    scores = read_scores(RESULTS / f"{name}.csv", metric)
    assert cells == [str(scores[system]).replace("(", "(sd ") for system in ("ours", "elmo")]
    assert set(map(int, seeds.split(" and "))) == {scores[system].runs for system in ("ours", "elmo")}
    rows = (RESULTS / f"{name}.csv").read_text(encoding="utf-8")
    assert set(re.findall(r"elmo_tasks ([\d.]+\d)", rows)) == {of_version or version("elmo_tasks")}


def test_a_number_typed_by_hand(tmp_path):
    template = tmp_path / "template.md"
    right = "2,000 trees, `lr .5`, [text](a1.5.csv), PyTorch 2.13.0\n{{ score(\n'x', '0.5') }}\n"
    assert typed_numbers(right) == []
    assert typed_numbers(f"{right}It has 38.2, then .5 and (21%).\n") == [(4, "38.2"), (4, ".5"), (4, "21%")]
    template.write_text(f"{right}It has 38.2.\n")
    with pytest.raises(InputError, match=r"template.md, line 4: found 38.2, expected a number of a CSV file"):
        rendered(RESULTS, COMMANDS, template)
    template.write_text('{{ number("nothing") }}')
    with pytest.raises(InputError, match="'nothing', which no file has"):
        rendered(RESULTS, COMMANDS, template)


def test_rows_of_a_task(tables, tmp_path):
    results = Results("ner", tmp_path / "ner.csv")
    for system, scores in (
        ("ours", (40.0, 41.0, 42.0)),
        ("peer", (40.5, 41.5)),
        ("elmo", (60.0, 61.0, 62.0)),
    ):
        for seed, score in enumerate(scores):
            results.add(system, seed, "F1", score)
            results.add(system, seed, "time of an epoch, s", score / 10)
    assert read_scores(tmp_path / "ner.csv", "F1")["ours"] == Score(41.0, 1.0, 3)
    systems = {"ours": "`ner`", "nothing": "", "elmo": "`ner_elmo`", "peer": "`crf_tagger`"}
    assert tables.scores("ner", systems, "F1").splitlines()[2:] == [
        "| `ner` | 41.0 (1.0) | 3 |  |  |",
        "| `ner_elmo` | 61.0 (1.0) | 3 | 33.9% | <.001 |",
        "| `crf_tagger` | 41.0 (0.7) | 2 | 0.0% | not shown |",
    ]
    assert (
        "| NER | time of an epoch, s | ours | 4.05 | peer | 4.10 | 0.988 (0.988 to 0.988) |"
        in tables.table({"NER": "ner"})
    )
    assert tables.table("ner").splitlines()[-3:] == [
        "| ours | 41.00 (1.00) |",
        "| peer | 41.00 (0.71) |",
        "| elmo | 61.00 (1.00) |",
    ]
    shown = tables.scores("ner", {"peer": "`crf_tagger`"}, "F1", first={"ner": {"ours": "`ner`"}})
    assert shown.splitlines()[2:] == [
        "| `ner` | 41.0 (1.0) | 3 |  |  |",
        "| `crf_tagger` | 41.0 (0.7) | 2 | 0.0% | not shown |",
    ]
    Results("limit", tmp_path / "limit.csv").add("limit", 0, "F1", 81.0)
    assert tables.way_to("ner", "elmo", "ours", "F1", "limit") == "50.0%"
    with pytest.raises(InputError, match="found no F2, expected a metric of F1"):
        tables.scores("ner", systems, "F2")
    assert tables.scores("sst", systems) == "\nNot measured yet: `sst`.\n"
    assert [tables.has(name) for name in ("ner", "sst")] == [True, False]


def test_one_cell_and_one_ratio(tables, tmp_path):
    table = Table(("command", "workers", "speed-up"))
    table.add("`embed`", 1, 1.0)
    table.add("`embed`", 2, 1.82)
    (tmp_path / "scale.csv").write_text(table.csv())
    assert tables.cell("scale", "speed-up", command="`embed`", workers=2) == "1.82"
    for row in ({"command": "`embed`"}, {"command": "`predict`"}):
        with pytest.raises(KeyError, match="scale"):
            tables.cell("scale", "speed-up", **row)
    results = Results("serve-load", tmp_path / "serve.csv")
    for seed, (one, eight) in enumerate(((10, 25), (20, 40), (10, 30))):
        results.add("one client", seed, "sentences/s", one)
        results.add("8 clients", seed, "sentences/s", eight)
    assert tables.ratio("serve", "sentences/s", "8 clients", "one client") == "2.5 (2 to 3)"
    results.add("8 clients", 0, "p50", 7.0)
    assert tables.means("serve", "p50").splitlines() == [
        "| system | p50 |",
        "| --- | --- |",
        "| 8 clients | 7.00 |",
    ]
    assert tables.means("embed", "p50") == "\nNot measured yet: `embed`.\n"


def test_runs_side_by_side(tables, tmp_path):
    for name, values in (("sst", {"before": 136.077, "after": 96}), ("wnut", {"before": 264.9})):
        results = Results("bilm", tmp_path / f"{name}.csv")
        for metric, value in values.items():
            results.add("ours", 0, metric, value)
    shown = tables.side_by_side({"SST-5": "sst", "W-NUT": "wnut"})
    assert shown.splitlines() == [
        "|  | SST-5 | W-NUT |",
        "| --- | --- | --- |",
        "| before | 136.08 | 264.90 |",
        "| after | 96 |  |",
    ]
    assert tables.side_by_side({"SST-5": "sst", "EWT": "ewt"}) == "\nNot measured yet: `ewt`.\n"


def test_tables_of_ablations(tables, tmp_path):
    table = Table(("variant", "f1", "standard deviation", "runs", "seed 1", "seed 2"))
    table.add("no ELMo", 0.4, 0.01, 2, 0.39, 0.41)
    table.add("input", 0.6, 0.01, 2, 0.59, 0.61)
    (tmp_path / "layers.csv").write_text(table.csv())
    (tmp_path / "published.csv").write_text('name,value,source\n"NER, no ELMo",81.6,Table 2\n')
    shown = tables.grid(
        {"NER": "layers", "SRL": "none"},
        {"no ELMo": "none", "input": "input", "output": "output"},
        "no ELMo",
        published=["NER"],
    )
    assert shown.splitlines() == [
        "|  | NER, 2 seeds | NER, published |",
        "| --- | --- | --- |",
        "| none | 40.0 (1.0) | 81.6 |",
        "| input | 60.0 (1.0) * |  |",
        "| output |  |  |",
        "",
        "Not measured yet: `none`.",
    ]
    columns = ("fraction", "training instances", "ELMo", "f1", "standard deviation", "runs")
    samples = Table((*columns, "epochs to best", "epochs to best without ELMo"))
    samples.add(0.5, 1000, "without", 0.4, 0.01, 3, 5.0, None)
    samples.add(0.5, 1000, "with", 0.6, 0.01, 3, 4.5, None)
    (tmp_path / "samples.csv").write_text(samples.csv())
    last = tables.samples({"NER": "samples"}).splitlines()[-1]
    assert last == "| NER | 1,000 | 40.0 (1.0) | 60.0 (1.0) | 3 | <.001 | 5.0 | 4.5 |  |"


def test_an_ensemble_beside_its_members(tables, tmp_path):
    results = Results("ensemble", tmp_path / "ner_ensemble.csv")
    for seed, score in enumerate((50.0, 51.0, 52.0)):
        results.add("member", seed, "f1", score)
    results.add("ensemble", 0, "f1", 60.0)
    last = tables.ensembles({"NER": "ner_ensemble"}, ["f1"]).splitlines()[-1]
    assert last == "| NER | 51.0 (1.0) | 3 | 52.0 | 60.0 | 18.4% | .004 |"


def test_a_curve(tables, tmp_path):
    """The best score until an epoch, as the mean over the seeds."""
    table = Table(("system", "seed", "epoch", "score"))
    for seed, scores in {13: (10.0, 30.0, 20.0, 40.0), 14: (20.0, 10.0, 30.0, 10.0)}.items():
        for epoch, score in enumerate(scores, start=1):
            table.add("ours", seed, epoch, score)
    table.add("elmo", 13, 1, 50.0)
    (tmp_path / "ner_curve.csv").write_text(table.csv())
    lines = tables.curve("ner_curve", {"ours": "`ner`", "elmo": "`ner_elmo`", "peer": ""}).splitlines()
    assert lines[0] == "| epochs | 1 | 2 | 3 | 4 |"
    assert lines[2:] == [
        "| `ner` | 15.0 | 25.0 | 30.0 | 35.0 |",
        "| `ner_elmo` | 50.0 | 50.0 | 50.0 | 50.0 |",
    ]
    assert "Not measured yet: `sst_curve`" in tables.curve("sst_curve", {})


def test_scores_of_an_earlier_version(tables, tmp_path):
    for name, number in (("old", "0.0.1"), ("new", version("elmo_tasks"))):
        table = Table(("variant", "f1", "standard deviation", "runs", "source"))
        table.add("ours", 0.5, 0.01, 3, f"elmo_tasks {number}, 2 cores")
        (tmp_path / f"{name}.csv").write_text(table.csv())
    line = "Runs of version 0.0.1"
    assert tables.scores("old", {"ours": "ours"}).endswith(f"\n{line}.\n")
    assert line not in tables.scores("new", {"ours": "ours"})
    grid = tables.grid({"An old task": "old", "A new task": "new"}, {"ours": "ours"}, "ours")
    assert grid.endswith(f"\n{line}: An old task.\n")


def test_p_values():
    """Of means and deviations as of the scores themselves."""
    scores, others = [9.0, 10.0, 11.0], [10.0, 12.0, 14.0, 12.0]
    first, second = Score(*spread(scores)), Score(*spread(others))
    expected = ttest_ind(scores, others, equal_var=False).pvalue
    assert first.p(second) == pytest.approx(expected)
    assert second.p(first) == pytest.approx(expected)
    # Without a spread there is nothing to test by.
    assert Score(10, 0.0, 3).p(Score(10, 0.0, 3)) is None
    assert Score(10, 0.0, 3).p(Score(20, 0.0, 3)) is None
    assert p_of_one([10.0] * 3, 20.0) is None
    assert p_of_one([10.0, 11.0, 10.0], 20.0) < 0.01
    assert Score(10, None, 1).shown_p(first) == "one run"
