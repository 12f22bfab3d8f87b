"""Rows of measurements, their statistics, and the pages that are made of them."""

import re

import pytest
from scipy.stats import ttest_ind

from benchmarks.page import PROJECT, RESULTS, USUAL_VERSION, PageTables, rendered, templates, typed_numbers
from benchmarks.paper import read_experiments
from benchmarks.results import Results, Score, p_of_one, read_scores
from elmo_tasks.common.table import Table
from elmo_tasks.data.input_files import InputError
from elmo_tasks.training.experiments import mean_and_deviation

COMMANDS = {experiment.name: experiment.command for experiment in read_experiments().values()}


@pytest.mark.parametrize("page", templates(), ids=lambda page: page.stem)
def test_the_pages_are_made_of_the_files(page):
    assert rendered(RESULTS, COMMANDS, templates()[page]) == page.read_text(encoding="utf-8"), (
        "python -m benchmarks paper --page"
    )


def test_a_number_typed_by_hand_is_refused(tmp_path):
    template = tmp_path / "template.md"
    right = "2,000 trees, `lr .5`, [text](a1.5.csv), PyTorch 2.13.0\n{{ score(\n'x', '0.5') }}\n"
    assert typed_numbers(right) == []
    assert typed_numbers(f"{right}It has 38.2, then .5 and (21%).\n") == [(4, "38.2"), (4, ".5"), (4, "21%")]
    template.write_text("A mean of 38.2.\n")
    with pytest.raises(InputError, match=r"template.md, line 1: .*38\.2"):
        rendered(RESULTS, COMMANDS, template)


def test_the_scores_of_the_readme():
    readme = (PROJECT / "README.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| \[.*\| `(\w+)`, .*, ([\w ]+) \| ([\d.]+) \| ([\d.]+) \|$", readme)
    assert [name for name, *_ in rows] == ["ner", "sst", "snli", "srl", "coref", "squad"]
    for name, metric, *scores in rows:
        experiment = {"sst": "sst_all"}.get(name, name)
        kept = read_scores(RESULTS / f"{experiment}.csv", metric)
        assert scores == [f"{kept[system].mean:.1f}" for system in ("ours", "elmo")], name


def test_the_scores_of_the_tutorial():
    text = (PROJECT / "docs/first-model.md").read_text(encoding="utf-8")
    rows = re.findall(r"(?m)^\| ([\d,]+) \| ([\d.]+) \| ([\d.]+) \|$", text)
    known = read_scores(RESULTS / "ner_ablation_samples.csv")
    assert len(rows) == 3
    for size, *scores in rows:
        kinds = [f"{size.replace(',', '')} {kind}" for kind in ("without", "with")]
        assert scores == [f"{known[kind].mean:.1f}" for kind in kinds]


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
    rows = Table.read(RESULTS / f"{name}.csv").where("system", "ours", "elmo").column("versions")
    assert set(re.findall(r"elmo_tasks ([\d.]+\d)", str(rows))) == {of_version or USUAL_VERSION}


@pytest.mark.parametrize(
    ("page", "metric"), [("snli", "accuracy"), ("srl", "F1"), ("coref", "average F1"), ("squad", "F1")]
)
def test_what_the_page_of_a_task_lets_expect(page, metric):
    text = (PROJECT / f"docs/{page}.md").read_text(encoding="utf-8")
    [rounded] = re.findall(r"is\s+(\d+) with ELMo\s+and (\d+) without", text)
    scores = read_scores(RESULTS / f"{page}.csv", metric)
    assert rounded == tuple(f"{scores[system].mean:.0f}" for system in ("elmo", "ours"))


def test_rows_their_means_ratios_and_table(tmp_path):
    results = Results("ner", tmp_path / "ner.csv")
    systems = {"ours": (40.0, 41.0, 42.0), "peer": (40.5, 41.5), "elmo": (60.0, 61.0, 62.0)}
    for system, scores in systems.items():
        for seed, score in enumerate(scores):
            results.add(system, seed, "F1", score)
            results.add(system, seed, "time of an epoch, s", score / 10)
    results = Results("ner", tmp_path / "ner.csv", keep=True)
    results.add("ours", 0, "F1", 99.0)  # it is known
    assert results.values("ours", "F1") == {0: 40.0, 1: 41.0, 2: 42.0}
    assert results.gains("F1", "ours").rows[1] == ("F1", "elmo", "ours", "33.9%")
    [ratio] = results.ratios(of="time").column("ratio (range)")
    assert ratio == "0.988 (0.988 to 0.988)"
    tables = PageTables(results=tmp_path, commands=COMMANDS)
    titles = {"ours": "`ner`", "elmo": "`ner_elmo`", "peer": "`crf_tagger`", "absent": ""}
    assert tables.scores("ner", titles, "F1").splitlines()[2:5] == [
        "| `ner` | 41.0 (1.0) | 3 |  |  |",
        "| `ner_elmo` | 61.0 (1.0) | 3 | 33.9% | <.001 |",
        "| `crf_tagger` | 41.0 (0.7) | 2 | 0.0% | not significant |",
    ]
    assert tables.scores("sst", titles) == "\nNot measured yet: `sst`.\n"


def test_p_values_of_means_and_deviations_are_those_of_the_scores():
    scores, others = [9.0, 10.0, 11.0], [10.0, 12.0, 14.0, 12.0]
    first, second = Score(*mean_and_deviation(scores)), Score(*mean_and_deviation(others))
    assert first.p(second) == pytest.approx(ttest_ind(scores, others, equal_var=False).pvalue)
    assert Score(10, 0.0, 3).p(Score(20, 0.0, 3)) is None  # a test needs a spread
    assert p_of_one([10.0] * 3, 20.0) is None
    assert p_of_one([10.0, 11.0, 10.0], 20.0) < 0.01
    assert Score(10, None, 1).shown_p(first) == "one run"
