from elmo_tasks.common.colours import COLOURS, for_displacy, of_tags


def test_a_usual_label_has_one_colour_wherever_it_is():
    entities, roles = of_tags(["O", "B-PER", "B-ORG", "B-DRUG"]), of_tags(["B-V", "B-ARG0", "I-R-ARG0"])
    assert entities["PER"] == of_tags(["U-PER", "U-LOC", "U-MISC"])["PER"]
    assert len(set(entities.values())) == 3
    assert roles["R-ARG0"] == roles["ARG0"] != roles["V"]
    codes = for_displacy()
    assert len({codes[label] for label in ("PER", "ORG", "LOC", "MISC")}) == 4
    assert codes["ARG0"] == codes["R-ARG0"] != codes["V"]
    assert len({codes[str(cluster)] for cluster in range(100)}) == COLOURS


def test_labels_of_others_share_colours_only_if_there_are_too_many():
    tags = [f"B-{letter}" for letter in "ABCDEFGHIJKLMN"]
    assert len(set(of_tags(tags[:COLOURS]).values())) == COLOURS
    assert len(of_tags(tags)) == 14
    assert of_tags(["negative", "non-fiction"]) == {}
