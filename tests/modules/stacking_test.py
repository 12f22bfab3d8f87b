from allennlp.data import Batch, Instance, Token, Vocabulary
from allennlp.data.fields import TextField
from allennlp.data.token_indexers import SingleIdTokenIndexer, TokenCharactersIndexer

from elmo_tasks.elmo.characters import ElmoCharacterIndexer, character_ids
from elmo_tasks.modules.stacking import stack_texts

ONE = [["a", "bc", "d"], ["bc"]]
OTHER = [["efgh", "a"], ["a", "a"]]
INDEXERS = {
    "words": SingleIdTokenIndexer(),
    "letters": TokenCharactersIndexer(min_padding_length=1),
    "elmo": ElmoCharacterIndexer(),
}


def test_rows_of_other_lengths_also_where_words_are_padded():
    pairs = [
        Instance({"x": TextField([*map(Token, x)], INDEXERS), "y": TextField([*map(Token, y)], INDEXERS)})
        for x, y in zip(ONE, OTHER, strict=True)
    ]
    vocab = Vocabulary.from_instances(pairs)
    batch = Batch(pairs)
    batch.index_instances(vocab)
    tensors = batch.as_tensor_dict()
    both = stack_texts(tensors["x"], tensors["y"])
    words, letters = both["words"]["tokens"], both["letters"]["token_characters"]
    assert (words.shape, letters.shape) == ((4, 3), (4, 3, 4))
    for row, sentence in enumerate([*ONE, *OTHER]):
        padding = [""] * (3 - len(sentence))
        names = [vocab.get_token_from_index(i) if i else "" for i in words[row].tolist()]
        spelt = [
            "".join(vocab.get_token_from_index(i, "token_characters") for i in word if i)
            for word in letters[row].tolist()
        ]
        assert names == spelt == [*sentence, *padding]
        characters = both["elmo"]["character_ids"][row]
        assert (characters[: len(sentence)].numpy() == character_ids(sentence)).all()
        assert characters[len(sentence) :].eq(0).all()
