import pytest


@pytest.mark.parametrize(
    "arguments",
    [
        "ensemble {kept} {other} -o {kept}",
        "ensemble {other} {kept} -o {kept}",
        "explain {kept} {other} {kept}",
        "explain {other} {kept} {kept}",
        "predict {kept} {other} {kept}",
        "predict {other} {kept} {kept}",
        "squad-predictions {kept} {other} {kept}",
        "squad-predictions {other} {kept} {kept}",
        "confusion {kept} {other} {kept}",
        "mix {other} {kept} -o {kept}",
        "intrinsic --wordsim {kept} -o {kept}",
        "intrinsic --wordsim {other} --vectors {other} --vectors {kept} -o {kept}",
        "probe pos {kept} {other} -o {kept}",
        "probe wic {other} {kept} -o {kept}",
        "neighbors word --corpus {kept} -o {kept}",
        "calibrate {other} {kept} --weight-file {kept}",
        "embed {other} {kept} --initial-state {kept}",
        "vectors elmo {other} {kept} --contexts {kept}",
        "report {other} {kept} -o {kept}",
        "export {other} {folder} --average-with {folder}",
    ],
)
def test_what_is_read_is_not_overwritten(elmo, tmp_path, capsys, arguments):
    places = {"kept": tmp_path / "a.csv", "other": tmp_path / "b.csv", "folder": tmp_path}
    for name in ("kept", "other"):
        places[name].write_text("mine")
    words = (word.format(**places) for word in arguments.split())
    assert elmo(*words, "--force") == 1
    assert "is the input, expected another file for the output" in capsys.readouterr().err
    assert {path.name: path.read_text() for path in tmp_path.iterdir()} == {"a.csv": "mine", "b.csv": "mine"}


def test_another_name_of_the_same_file(elmo, tmp_path, capsys):
    (tmp_path / "in.jsonl").write_text("mine")
    (tmp_path / "link").symlink_to(tmp_path / "in.jsonl")
    assert elmo("predict", "archive", tmp_path / "link", tmp_path / "in.jsonl", "--force") == 1
    assert "in.jsonl is the input" in capsys.readouterr().err
    assert (tmp_path / "in.jsonl").read_text() == "mine"
