"""Three sentences, in each layout."""

import json

CONLL = """#begin document (d); part 000
d 0 0 Omar NNP (TOP* - - - - (PERSON) (ARG0*) (ARG1*) -
d 0 1 promised VBD * promise 01 2 - * (V*) * -
d 0 2 to TO * - - - - * (ARG1* * -
d 0 3 look VB * look 05 - - * * (V*) -
d 0 4 it PRP * - - - - * * (ARG2*) (3)
d 0 5 up RP *) - - - - * *) (C-V*) -

d 0 0 Gulls NNS (TOP*) - - - - * -
d 0 1 ! . *) - - - - * -

d 0 0 A DT (TOP* - - - - * (A1* -
d 0 1 visit NN *) visit 01 - - * (V*) -
#end document
""".replace("A DT (TOP* - - - - * (A1* -", "A DT (TOP* - - - - * (ARG1*) -")


PROPOSITIONS = [
    (1, ["B-ARG0", "B-V", "B-ARG1", "I-ARG1", "I-ARG1", "I-ARG1"]),
    (3, ["B-ARG1", "O", "O", "B-V", "B-ARG2", "B-C-V"]),
    (1, ["B-ARG1", "B-V"]),
]


CONLL_2005 = """Omar - (A0*) (A1*)
promised promise (V*V) *
to - (A1* *
look look * (V*)
it - * (A2*)
up - *A1) (C-V*)

Gulls -
! -

A - (A1*)
visit visit (V*)
"""


JSON_LINES = [
    {
        "tokens": ["Omar", "promised", "to", "look", "it", "up"],
        "pos": ["NNP", "VBD", "TO", "VB", "PRP", "RP"],
        "predicates": [
            {
                "index": 1,
                "arguments": [{"label": "ARG1", "spans": [[2, 6]]}, {"label": "ARG0", "spans": [[0, 1]]}],
            },
            {
                "index": 3,
                "predicate": "look",
                "arguments": [
                    {"label": "ARG1", "spans": [[0, 1]]},
                    {"label": "ARG2", "spans": [[4, 5]], "text": "it"},
                    {"label": "V", "spans": [[3, 4], [5, 6]]},
                ],
            },
        ],
    },
    {"tokens": ["Gulls", "!"], "predicates": [], "pos": ["NNS", "."]},
    {
        "tokens": ["A", "visit"],
        "predicates": [{"index": 1, "arguments": [{"label": "ARG1", "spans": [[0, 1]]}]}],
        "pos": ["DT", "NN"],
    },
]


def lines(objects):
    return "".join(json.dumps(each) + "\n" for each in objects)
