"""`allennlp elmo vectors`."""

import gzip

import pytest
import torch
from allennlp.common import Params
from allennlp.data import Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer
from allennlp.modules import TokenEmbedder

from elmo_tasks.vectors.encoder import BiLmEncoder
from elmo_tasks.vectors.text_format import take_vectors
from tests.commands.texts import tiny
from tests.elmo.files import read_frozen
from tests.vectors.examples import sentences


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.gz"
    with gzip.open(path, "wt") as file:
        file.write("".join(" ".join(words).capitalize() + "\n\n" for words in sentences()))
    return path


def table_of(path):
    lines = (
        (gzip.decompress(path.read_bytes()) if path.suffix == ".gz" else path.read_bytes())
        .decode()
        .splitlines()
    )
    rows = [line.split(" ") for line in lines[1:]]
    return lines[0], {word: [float(number) for number in numbers] for word, *numbers in rows}


@pytest.mark.parametrize("method", ["word2vec", "svd"])
def test_what_it_writes_is_read(elmo, text, tmp_path, method, capsys):
    if method == "word2vec":
        pytest.importorskip("gensim")
    output = tmp_path / "out.txt.gz"
    assert elmo("vectors", method, text, output, "--dim", 5, "--lowercase") == 0
    assert f"{output}: 14 words, 5 dimensions" in capsys.readouterr().out
    header, table = table_of(output)
    assert header == "14 5"
    assert len(table) == 14
    # By AllenNLP's embedding
    vocab = Vocabulary.from_instances(
        [Instance({"x": TextField([Token("pump"), Token("new")], {"tokens": SingleIdTokenIndexer()})})]
    )
    embedding = TokenEmbedder.from_params(
        Params({"type": "embedding", "embedding_dim": 5, "pretrained_file": str(output)}), vocab=vocab
    )
    assert torch.allclose(embedding.weight[vocab.get_token_index("pump")], torch.tensor(table["pump"]))
    # As the start of a biLM
    rows = torch.zeros(2, 5)
    take_vectors(rows, ["cat", "new"], str(output))
    assert torch.allclose(rows, torch.tensor([table["cat"], [0.0] * 5]))
    # Equal bytes each time
    before = output.read_bytes()
    assert elmo("vectors", method, text, output, "--dim", 5, "--lowercase", "--force") == 0
    assert output.read_bytes() == before


def test_case_is_kept_unless_asked(elmo, text, tmp_path):
    assert elmo("vectors", "svd", text, tmp_path / "out.txt", "--dim", 3) == 0
    assert {"The", "We"} < set(table_of(tmp_path / "out.txt")[1])


@pytest.mark.parametrize("layer", ["average", "1"])
@pytest.mark.parametrize("in_text", [False, True])
def test_elmos_vectors_of_words(elmo, tmp_path, capsys, layer, in_text):
    """Alone, or averaged over a text in which one of the words never stands; and as gensim reads them."""
    words = tmp_path / "words.txt"
    words.write_text("cat\nOslo\nabsent\ncat\n")
    lines = ["the cat saw Oslo", "", "a cat , a dog"]
    (tmp_path / "text.txt").write_text("\n".join(lines))
    options = tiny(tmp_path)
    output = tmp_path / "out.txt"
    contexts = ("--contexts", tmp_path / "text.txt") if in_text else ()
    assert elmo("vectors", "elmo", words, output, "--layer", layer, *contexts, *options) == 0
    encoder = BiLmEncoder(bilm=read_frozen(options[1], options[3]), mixes={})
    row = encoder.names.index("average" if layer == "average" else "layer 1")
    if in_text:
        one, _, two = (vectors[row] for vectors in encoder.encode(map(str.split, lines)))
        expected = {"cat": (one[1] + two[1]) / 2, "Oslo": one[3]}
    else:
        expected = {word: next(encoder.encode([[word]]))[row, 0] for word in ("cat", "Oslo", "absent")}
    said = f"{output}: {len(expected)} words, 12 dimensions" + ("; 1 without a vector" if in_text else "")
    assert said in capsys.readouterr().out
    table = pytest.importorskip("gensim.models").KeyedVectors.load_word2vec_format(str(output))
    assert table.index_to_key == list(expected)
    for word, vector in expected.items():
        assert torch.allclose(torch.tensor(table[word]), vector, atol=1e-5)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--layer", "3"], "found 'layer 3', expected one of layer 0, layer 1, layer 2, average"),
        (["--layer", "top"], "found 'top', expected one of layer 0"),
        (["--contexts", "{words}"], "found no vector of 1 words"),
        (["--min-count", "2"], "none of them 2 times"),
    ],
)
def test_errors_of_elmos_vectors(elmo, tmp_path, capsys, arguments, message):
    words, contexts = tmp_path / "words.txt", tmp_path / "contexts.txt"
    words.write_text("cat\n")
    contexts.write_text("a dog\n")
    filled = [argument.format(words=contexts) for argument in arguments]
    assert elmo("vectors", "elmo", words, tmp_path / "out.txt", *filled, *tiny(tmp_path)) == 1
    assert message in capsys.readouterr().err
    assert not (tmp_path / "out.txt").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["svd", "nowhere.txt", "{out}"], "nowhere.txt: found no file"),
        (["svd", "{text}", "{text}"], "exists; --force overwrites it"),
        (["svd", "{text}", "{out}", "--min-count", "1000"], "none of them 1000 times"),
    ],
)
def test_errors(elmo, text, tmp_path, capsys, arguments, message):
    filled = [argument.format(text=text, out=tmp_path / "out.txt") for argument in arguments]
    assert elmo("vectors", *filled) == 1
    assert message in capsys.readouterr().err
    assert not list(tmp_path.glob("out*"))


@pytest.mark.parametrize(
    "arguments", [(), ("svd", "a", "b", "--shift", "0"), ("word2vec", "a", "b", "--subsample", "x")]
)
def test_wrong_usage(elmo, arguments):
    assert elmo("vectors", *arguments) == 2
