import pytest
import torch
from allennlp.common import Params
from allennlp.common.checks import ConfigurationError
from allennlp.data import DatasetReader

from benchmarks.attention import ELMO, STATES, means
from elmo_tasks.common.files import bundled
from tests.modules.models import build, indexed, tensors, tiny_elmo

WORD, DIFFERENCE = "weight on the word itself", "length of the difference"
MAX_NUMBER = "largest weight of the attention"
DEVIATION = "deviation of the attention over the passage"


class Small:
    """The model of a config for its fixtures."""

    def __init__(self, task, folder, placement="input+output", **changes):
        settings = tiny_elmo(f"{task}_elmo.jsonnet", folder, placement)
        settings["model"] |= changes
        self.reader = DatasetReader.from_params(Params(settings["dataset_reader"]))
        (data,) = bundled(f"fixtures/{task}").glob("dev.*")
        self.model = build(settings, indexed(self.reader, self.reader.read(data)))

    def instances(self, *texts):
        return indexed(self.reader, [self.reader.text_to_instance(*of_one) for of_one in texts])

    def means(self, *texts):
        return means(self.model, self.instances(*texts))


def test_a_word_alone_looks_at_itself(tmp_path):
    measures = Small("sst", tmp_path).means([["fine"]])
    assert measures[WORD] == 1
    assert measures[DIFFERENCE] == 0


@pytest.mark.parametrize("scaled", [False, True])
def test_words_of_sst_by_plain_formulas(scaled, tmp_path):
    small = Small("sst", tmp_path, scaled_attention=scaled)
    sentences = [["a", "slow", "film"], ["it", "works"]]
    encoded = []
    small.model.encoder.register_forward_hook(lambda module, inputs, output: encoded.append(output[0]))
    elmo = []
    small.model.elmo.register_forward_hook(lambda module, inputs, output: elmo.append(output.output[0]))
    measures = small.means(*([words] for words in sentences))
    weights, differences = [], []
    for words in (torch.cat(parts, dim=1) for parts in zip(encoded, elmo, strict=True)):
        for place, word in enumerate(words):
            products = words @ word / (len(word) ** 0.5 if scaled else 1)
            attention = products.softmax(0)
            weights.append(attention[place])
            differences.append((word - attention @ words).norm() / word.norm())
    assert measures[WORD] == pytest.approx(float(sum(weights)) / 5, abs=1e-5)
    assert measures[DIFFERENCE] == pytest.approx(float(sum(differences)) / 5, abs=1e-5)
    assert measures[STATES] == pytest.approx(float(torch.cat(encoded).norm(dim=1).mean()), rel=1e-5)
    assert measures[ELMO] == pytest.approx(float(torch.cat(elmo).norm(dim=1).mean()), rel=1e-5)


def test_padding_of_a_pair_does_not_count(tmp_path):
    small = Small("snli", tmp_path)
    pair = [["A", "man", "sleeps", "."], ["He", "rests"]]
    with torch.no_grad():
        outputs = small.model(**tensors(small.instances(pair), small.model.vocab))
    largest = outputs["premise_to_hypothesis"][0, :4].amax(dim=1)
    measures = small.means(pair)
    assert measures[MAX_NUMBER] == pytest.approx(float(largest.mean()), rel=1e-5)
    assert small.means([pair[0], ["rests"]])[MAX_NUMBER] == 1
    lengths = []
    small.model.encoder.register_forward_hook(
        lambda module, inputs, output: lengths.extend([output[0, :4].norm(dim=1), output[1, :2].norm(dim=1)])
    )
    assert small.means(pair)[STATES] == pytest.approx(float(torch.cat(lengths).mean()), rel=1e-5)


def test_all_words_of_a_passage_that_look_at_the_same_have_no_deviation(tmp_path):
    small = Small("squad", tmp_path)
    passage = "The ferry left the harbour at noon ."
    # There is nothing else to look at.
    assert small.means([passage, "When"])[DEVIATION] == 0
    assert small.means([passage, "When did the ferry leave ?"])[DEVIATION] > 0.001


def test_elmo_at_the_input_alone_has_no_length_at_the_output(tmp_path):
    assert list(Small("snli", tmp_path, "input").means([["a", "b"], ["c"]])) == [MAX_NUMBER, STATES]


def test_a_model_of_another_task(tmp_path):
    with pytest.raises(ConfigurationError, match="found NerModel, expected a model of SST-5, SNLI or SQuAD"):
        Small("ner", tmp_path).means([["Anna", "left"]])
