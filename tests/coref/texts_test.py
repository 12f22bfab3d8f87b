import pytest

from elmo_tasks.coref.documents import CorefDocument, mark_mentions, names_of_pronouns, replace_pronouns
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import tokenizer

FOUND = [["Ana", "lost", "her", "keys", "."], ["She", "found", "them", "."]]
CLUSTERS = [[(0, 0), (2, 2), (5, 5)], [(2, 3), (7, 7)]]


def without_pronouns(document, clusters):
    """Replaces each pronoun by the first name of its cluster."""
    names = names_of_pronouns(document.words, clusters)
    return replace_pronouns(document, {token: mentions[0] for token, mentions in names.items()})


def test_mentions_are_marked_within_each_other():
    words = join_words([word for sentence in FOUND for word in sentence])
    marked = "[0 Ana] lost [1 [0 her] keys] . [0 She] found [1 them] ."
    assert mark_mentions(words, CLUSTERS) == marked
    assert mark_mentions(words, []) == words.text
    # Two mentions that start at one word, and three that end at one
    clusters = [[(0, 0), (0, 2)], [(1, 2)], [(2, 2)]]
    assert mark_mentions(join_words(["a", "b", "c"]), clusters) == "[0 [0 a] [1 b [2 c]]]"


def test_the_text_keeps_its_white_space():
    words = tokenizer()("  Ana  lost\n her keys.")
    clusters = [[(0, 0), (words.words.index("her"),) * 2]]
    assert mark_mentions(words, clusters) == "  [0 Ana]  lost\n [0 her] keys."
    document = CorefDocument.of([words.words], words=words)
    assert without_pronouns(document, clusters) == "  Ana  lost\n Ana's keys."


@pytest.mark.parametrize(
    ("text", "clusters", "expected"),
    [
        ("Ana", [], "Ana"),
        ("Ana lost her keys .\nShe found them .", CLUSTERS, "Ana lost Ana's keys . Ana found her keys ."),
        # The first mention that is not a pronoun, wherever it stands
        ("She sang , and Ana laughed .", [[(0, 0), (4, 4)]], "Ana sang , and Ana laughed ."),
        ("He sang .\nHis song was long .", [[(0, 0), (3, 3)]], "He sang . His song was long ."),
        # Who and that stay, and replace nothing
        (
            *("The man who left sang .\nHe left .", [[(0, 1), (2, 2), (6, 6)]]),
            "The man who left sang . The man left .",
        ),
        ("Who is he ?", [[(0, 0), (2, 2)]], "Who is he ?"),
        # A part of the mention itself
        (
            *("The boy who lost his hat ran , and he fell .", [[(0, 5), (4, 4), (9, 9)]]),
            "The boy who lost his hat ran , and the boy who lost his hat fell .",
        ),
        # Large and small letters
        ("So said the man .\nHe left .", [[(2, 3), (5, 5)]], "So said the man . The man left ."),
        ("The Moonstone ran .\nI saw it .", [[(0, 1), (6, 6)]], "The Moonstone ran . I saw the Moonstone ."),
        # The name's own 's
        (
            *("Ana 's hat fell .\nShe ran , hers in hand .", [[(0, 1), (5, 5), (8, 8)]]),
            "Ana 's hat fell . Ana ran , Ana's in hand .",
        ),
        # her
        ("Ana ran .\nI saw her , with her .", [[(0, 0), (5, 5), (8, 8)]], "Ana ran . I saw Ana , with Ana ."),
        ("Ana ran .\nWe saw her\nold hat .", [[(0, 0), (5, 5)]], "Ana ran . We saw Ana old hat ."),
        ("Ana ran .\nWe saw her old hat .", [[(0, 0), (5, 5)]], "Ana ran . We saw Ana's old hat ."),
    ],
)
def test_pronouns_are_replaced(text, clusters, expected):
    document = CorefDocument.of([sentence.split() for sentence in text.splitlines()])
    assert without_pronouns(document, clusters) == expected
