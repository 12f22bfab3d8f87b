import pytest

from elmo_tasks.coref.documents import CorefDocument, mark_mentions, replace_pronouns
from elmo_tasks.data.tokenization import Words, join_words, tokenizer

ANA = [["Ana", "lost", "her", "keys", "."], ["She", "found", "them", "."]]
CLUSTERS = [[(0, 0), (2, 2), (5, 5)], [(2, 3), (7, 7)]]


def test_mentions_are_marked_within_each_other():
    words = join_words([word for sentence in ANA for word in sentence])
    assert mark_mentions(words, CLUSTERS) == "[0 Ana] lost [1 [0 her] keys] . [0 She] found [1 them] ."
    assert mark_mentions(words, []) == words.text
    # Two that start at one word, and three that end at one
    assert (
        mark_mentions(join_words(["a", "b", "c"]), [[(0, 0), (0, 2)], [(1, 2)], [(2, 2)]])
        == "[0 [0 a] [1 b [2 c]]]"
    )


def test_the_text_stays_as_it_was():
    words = tokenizer()("  Ana  lost\n her keys.")
    document = CorefDocument.of([words.words], words=words)
    assert (
        mark_mentions(words, [[(0, 0), (words.words.index("her"),) * 2]]) == "  [0 Ana]  lost\n [0 her] keys."
    )
    assert (
        replace_pronouns(document, [[(0, 0), (words.words.index("her"),) * 2]]) == "  Ana  lost\n Ana's keys."
    )


def resolve(*sentences, clusters):
    return replace_pronouns(CorefDocument.of([sentence.split() for sentence in sentences]), clusters)


@pytest.mark.parametrize(
    ("sentences", "clusters", "expected"),
    [
        (["Ana lost her keys .", "She found them ."], CLUSTERS, "Ana lost Ana's keys . Ana found her keys ."),
        # The first mention that is no pronoun, wherever it stands
        (["She sang , and Ana laughed ."], [[(0, 0), (4, 4)]], "Ana sang , and Ana laughed ."),
        (["He sang .", "His song was long ."], [[(0, 0), (3, 3)]], "He sang . His song was long ."),
        # Who and that stay; nothing is replaced by them
        (
            ["The man who left sang .", "He left ."],
            [[(0, 1), (2, 2), (6, 6)]],
            "The man who left sang . The man left .",
        ),
        (["Who is he ?"], [[(0, 0), (2, 2)]], "Who is he ?"),
        # A part of the mention itself
        (
            ["The boy who lost his hat ran , and he fell ."],
            [[(0, 5), (4, 4), (9, 9)]],
            "The boy who lost his hat ran , and the boy who lost his hat fell .",
        ),
        # Large and small letters
        (
            ["It rained , said the old man .", "He left ."],
            [[(4, 6), (8, 8)]],
            "It rained , said the old man . The old man left .",
        ),
        (
            ["The Moonstone sank .", "We saw it ."],
            [[(0, 1), (6, 6)]],
            "The Moonstone sank . We saw the Moonstone .",
        ),
        # The name's own 's
        (
            ["Ana 's hat fell .", "She ran , hers in hand ."],
            [[(0, 1), (5, 5), (8, 8)]],
            "Ana 's hat fell . Ana ran , Ana's in hand .",
        ),
        # her
        (
            ["Ana came .", "We saw her again , with her ."],
            [[(0, 0), (5, 5), (9, 9)]],
            "Ana came . We saw Ana again , with Ana .",
        ),
        (
            ["Ana came .", "We saw her", "again her old hat ."],
            [[(0, 0), (5, 5), (7, 7)]],
            "Ana came . We saw Ana again Ana's old hat .",
        ),
    ],
)
def test_resolved(sentences, clusters, expected):
    assert resolve(*sentences, clusters=clusters) == expected


def test_nothing_to_resolve():
    document = CorefDocument.of([["Ana"]], words=Words("Ana", ["Ana"], [(0, 3)]))
    assert replace_pronouns(document, []) == "Ana"
