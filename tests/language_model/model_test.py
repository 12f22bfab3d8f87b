import math
from collections import Counter

import numpy as np
import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import Instance, Vocabulary
from allennlp.data.data_loaders import MultiProcessDataLoader
from allennlp.models import Model
from allennlp.nn.util import move_to_device
from allennlp.training import GradientDescentTrainer

from elmo_tasks.commands.bilm import write_bilm
from elmo_tasks.elmo.inference import training_products
from elmo_tasks.elmo.inference.training_products import trains_in_bfloat16
from elmo_tasks.language_model.bptt_batch import empty_block
from elmo_tasks.language_model.metric import DIRECTIONS, OTHER_WORDS, Perplexity
from elmo_tasks.language_model.model import BiLmModel, words_by_class
from elmo_tasks.language_model.reader import BiLmReader
from elmo_tasks.modules.metrics import confusion_name
from tests.elmo.files import WEIGHTS, changed
from tests.language_model.archives import log_probabilities_of_files

TEXT = """The cat sat on the mat .
It was a very long day for the cat , and it did not like that at all until the evening came .
Łódź
고양이가 매트 위에 앉았다 .

The mat was red .
Nobody asked the cat .

No .

a b a b a b a b a b a b
The cat left , and the mat stayed on the floor .
The end .
Really .
"""
SOFTMAXES = [
    {"type": "full"},
    {"type": "sampled", "num_samples": 5},
    {"type": "adaptive", "cutoffs": [6], "div_value": 2},
]
PASSAGE = 3
"""Sentences, so that the longest passage has many more steps than a block."""


@pytest.fixture
def text(tmp_path):
    (tmp_path / "text").write_text(TEXT, encoding="utf-8")
    return str(tmp_path / "text")


def reader_of(kind="characters", **options):
    return BiLmReader(
        input=kind, passage=PASSAGE, **({"streams": 3, "bptt_steps": 5, "shuffle_buffer": 0} | options)
    )


def build(
    text, kind="characters", softmax=None, vocab=None, frequent_words=0, precision="float32", **changes
):
    """A tiny model with weights so large that the state, and where it is reset, can be seen."""
    vocab = vocab or Vocabulary.from_instances(reader_of().read(text), min_count={"tokens": 2})
    options = changed(**changes)
    if kind == "words":
        del options["char_cnn"]
    torch.manual_seed(3)
    params = {
        "type": "elmo_bilm",
        "options": options,
        "softmax": softmax or {"type": "full"},
        "dropout": 0.0,
        "frequent_words": frequent_words,
        "precision": precision,
    }
    model = Model.from_params(Params(params), vocab=vocab)
    with torch.no_grad():
        for parameter in model.bilm.lstm.parameters():
            parameter.mul_(3).add_(0.5 * torch.randn_like(parameter))
    return model


def blocks(model, instances):
    for instance in instances:
        instance.index_fields(model.vocab)
        yield instance.as_tensor_dict()["block"]


def scores(model, reader, text):
    """Returns each passage's log probabilities, `(2, steps)`, and the perplexity that is reported."""
    streams, found = {}, []
    model.eval()
    for block in blocks(model, reader.read(text)):
        outputs = model(block)
        parts = outputs["log_probabilities"][0].split(block["lengths"].tolist(), dim=1)
        for stream, (part, fresh) in enumerate(zip(parts, block["fresh"].tolist(), strict=True)):
            if fresh:
                streams[stream] = []
                found.append(streams[stream])
            streams.get(stream, []).append(part.numpy())
        assert outputs["loss"].item() == pytest.approx(-outputs["log_probabilities"].mean().item(), rel=1e-6)
    return [np.concatenate(part, axis=1) for part in found], model.get_metrics(reset=True)


@pytest.mark.parametrize("kind", ["characters", "words"])
@pytest.mark.parametrize(
    "changes",
    [{}, {"n_layers": 1, "max_characters_per_token": 6}, {"dim": 6, "use_skip_connections": False}],
    ids=["", "1 layer", "plain"],
)
def test_probabilities_are_those_of_single_steps(text, tmp_path, kind, changes):
    """Whatever the streams and blocks: the state goes on within a passage and is zeros at its begin."""
    model = build(text, kind, **changes)
    write_bilm(
        tmp_path, model.bilm, model.softmax, words_by_class(model.vocab), dtype="float32", weights=WEIGHTS
    )
    expected = log_probabilities_of_files(tmp_path, TEXT, passage=PASSAGE)
    means = np.concatenate(expected, axis=1).mean(axis=1)
    for streams, bptt_steps in [(1, 20), (3, 5), (8, 1)]:
        found, metrics = scores(model, reader_of(kind, streams=streams, bptt_steps=bptt_steps), text)
        assert len(found) == len(expected)
        for ours, theirs in zip(found, expected, strict=True):
            np.testing.assert_allclose(ours, theirs, atol=2e-5)
        assert metrics["perplexity"] == pytest.approx(math.exp(-means.mean()), rel=1e-5)
        assert metrics["perplexity_forward"] == pytest.approx(math.exp(-means[0]), rel=1e-5)
        assert metrics["perplexity_backward"] == pytest.approx(math.exp(-means[1]), rel=1e-5)
    model.train()
    whole = next(blocks(model, reader_of(kind, streams=8, bptt_steps=None).read(text)))
    assert model(whole)["loss"].item() == pytest.approx(-means.mean(), rel=1e-5)


@pytest.mark.parametrize("bptt_steps", [None, 5])
def test_training_in_one_shape_is_the_same(text, bptt_steps, monkeypatch):
    found = []
    for in_one_shape in (False, True):
        monkeypatch.setattr(BiLmModel, "_has_fixed_shape", lambda self, device, answer=in_one_shape: answer)
        model = build(text).train()
        reader = reader_of(streams=3, bptt_steps=bptt_steps)
        losses = [model(block)["loss"] for block in blocks(model, reader.read(text))]
        assert len(losses) > 1
        sum(losses).backward()
        found.append([*losses, *(weight.grad for weight in model.parameters())])
    for plain, padded in zip(*found, strict=True):
        torch.testing.assert_close(padded, plain, atol=1e-5, rtol=1e-4)


@pytest.mark.cuda
@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_training_on_a_gpu(text, precision):
    found = []
    for device in ("cpu", "cuda"):
        model = build(text, precision=precision if device == "cuda" else "float32").to(device).train()
        optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
        losses = []
        for _ in range(3):
            for block in blocks(model, reader_of(streams=3, bptt_steps=5, shuffle_buffer=0).read(text)):
                optimizer.zero_grad()
                loss = model(move_to_device(block, torch.device(device)))["loss"]
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
        found.append(losses)
    np.testing.assert_allclose(found[1], found[0], rtol=1e-4 if precision == "float32" else 0.1)


@pytest.mark.parametrize("kind", ["characters", "words"])
@pytest.mark.parametrize("softmax", SOFTMAXES, ids=lambda block: block["type"])
def test_block_without_steps(text, kind, softmax):
    model = build(text, kind, softmax).train()
    first, *_ = blocks(model, reader_of(kind).read(text))
    model(first)
    state = model.get_extra_state()
    (empty,) = blocks(model, [Instance({"block": empty_block(streams=3, input=kind)})])
    loss = model(empty)["loss"]
    loss.backward()
    assert loss.item() == 0
    assert all((weight.grad == 0).all() for weight in model.parameters())
    assert all(state[name] is part or state[name] == part for name, part in model.get_extra_state().items())
    assert model.eval()(empty) == {}
    assert model.get_metrics() == {}


@pytest.mark.parametrize(("kind", "other"), [("characters", "words"), ("words", "characters")])
def test_a_reader_of_another_input(text, kind, other):
    model = build(text, kind)
    block, *_ = blocks(model, reader_of(other).read(text))
    with pytest.raises(ConfigurationError, match=f"{kind}.*{kind}"):
        model(block)


def test_unicode_characters_are_refused(text):
    with pytest.raises(ConfigurationError, match="options: "):
        build(text, encoding="unicode")


def test_other_streams_than_before(text):
    model = build(text)
    scores(model, reader_of(streams=3), text)
    scores(model, reader_of(streams=64), text)
    found, expected = (scores(each, reader_of(streams=50), text)[1] for each in (model, build(text)))
    assert found == expected


def test_accumulated_gradients(text):
    """The update is that of the mean of two blocks' gradients, the second going on from the first's state."""
    ours, theirs = build(text), build(text)
    loader = MultiProcessDataLoader(reader_of(max_instances=2), text, batch_size=1, quiet=True)
    loader.index_with(ours.vocab)
    GradientDescentTrainer(
        model=ours,
        optimizer=torch.optim.SGD(ours.parameters(), lr=0.5),
        data_loader=loader,
        num_epochs=1,
        num_gradient_accumulation_steps=2,
        cuda_device=-1,
    ).train()
    theirs.train()
    losses = [theirs(block)["loss"] for block in blocks(theirs, reader_of(max_instances=2).read(text))]
    assert len(losses) == 2
    (sum(losses) / 2).backward()
    for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
        torch.testing.assert_close(one, other - 0.5 * other.grad)


@pytest.mark.skipif(not trains_in_bfloat16(), reason="no bfloat16 here")
@pytest.mark.parametrize("kind", ["characters", "words"])
@pytest.mark.parametrize("softmax", SOFTMAXES, ids=lambda block: block["type"])
def test_bfloat16(text, kind, softmax):
    exact, rounded = (build(text, kind, softmax, precision=name) for name in ("float32", "bfloat16"))
    assert scores(exact, reader_of(kind), text)[1] == scores(rounded, reader_of(kind), text)[1]
    losses, gradients = [], []
    for model in (exact, rounded):
        model.train()
        torch.manual_seed(3)
        losses.append(sum(model(block)["loss"] for block in blocks(model, reader_of(kind).read(text))))
        losses[-1].backward()
        gradients.append(torch.cat([weight.grad.flatten() for weight in model.parameters()]))
    assert 0 < abs(losses[0] - losses[1]) < 0.01 * losses[0]
    assert (gradients[0] - gradients[1]).norm() < 0.05 * gradients[0].norm()
    assert rounded.state_dict().keys() == exact.state_dict().keys()


def test_impossible_precision(text, monkeypatch):
    with pytest.raises(ConfigurationError, match=r"precision 'bf16'"):
        build(text, precision="bf16")
    monkeypatch.setattr(training_products, "trains_in_bfloat16", lambda: False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(ConfigurationError, match=r"'float32'"):
        build(text, precision="bfloat16")


def test_which_words_are_taken_for_which(text):
    model = build(text, softmax=SOFTMAXES[2], frequent_words=4)
    classes = words_by_class(model.vocab)
    metrics = scores(model, reader_of(), text)[1]
    # Both directions predict each word, one of them the ends and the other the begins.
    sentences = [line.split() for line in TEXT.splitlines() if line]
    targets = [word for words in sentences for word in [*words, *words, "<S>", "</S>"]]
    named = [word if word in classes else "<UNK>" for word in targets]
    counted = Counter(word if word in classes[:4] else OTHER_WORDS for word in named)
    for gold in (*classes[:4], OTHER_WORDS):
        row = [metrics[confusion_name(gold, predicted)] for predicted in (*classes[:4], OTHER_WORDS)]
        assert sum(row) == counted[gold] > 0
        assert metrics[f"recall-{gold}"] == pytest.approx(metrics[confusion_name(gold, gold)] / counted[gold])
    # Other words in place of other words are not right.
    both = (metrics["accuracy_forward"] + metrics["accuracy_backward"]) / 2
    assert metrics["accuracy"] == pytest.approx(both)


@pytest.mark.parametrize("words", [[], ["the", "cat"], None], ids=["none", "two", "all"])
def test_a_vocabulary_that_lacks_words_is_warned_of_before_training(text, caplog, words):
    reader = reader_of()
    counted = Vocabulary.from_instances(reader.read(text))
    counts = counted._retained_counter["tokens"]
    known = list(counts) if words is None else words
    vocab = Vocabulary({"tokens": {word: counts[word] for word in known}})
    vocab._retained_counter = {"tokens": counts}
    model = build(text, vocab=vocab)
    warnings = [record.getMessage() for record in caplog.records if "among the" in record.getMessage()]
    share = 1 - sum(counts[word] for word in known) / sum(counts.values())
    assert [line.split("%")[0] for line in warnings] == ([f"{100 * share:.0f}"] if words is not None else [])
    # Begins and ends of sentences are targets, too.
    found = scores(model.eval(), reader, text)[1]["unknown_words"]
    sentences = [line.split() for line in TEXT.splitlines() if line]
    targets = [word for sentence in sentences for word in [*sentence, "</S>", *sentence, "<S>"]]
    assert found == pytest.approx(sum(word not in known for word in targets) / len(targets))


def targets(number: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(number)
    return (-5 * torch.rand(2, number, generator=generator), torch.rand(2, number, generator=generator) < 0.3)


@pytest.mark.parametrize("sizes", [[100], [40, 60], [1] * 100])
def test_perplexity_is_that_of_all_targets_whatever_the_batches(sizes):
    scores, correct = targets(100)
    metric = Perplexity()
    unknown = ~correct
    for parts in zip(*(part.split(sizes, dim=1) for part in (scores, correct, unknown)), strict=True):
        metric(*parts)
    metrics = metric.get_metric()
    assert metrics["unknown_words"] == pytest.approx(unknown.double().mean().item())
    assert metrics["perplexity"] == pytest.approx(math.exp(-scores.double().mean()))
    assert metrics["accuracy"] == pytest.approx(correct.double().mean().item())
    for direction, row, right in zip(DIRECTIONS, scores.double(), correct, strict=True):
        assert metrics[f"perplexity_{direction}"] == pytest.approx(math.exp(-row.mean()))
        assert metrics[f"accuracy_{direction}"] == pytest.approx(right.double().mean().item())
    assert metric.get_metric(reset=True) == metrics
    assert metric.get_metric() == {}
