from hypothesis import given, settings
from hypothesis import strategies as st

from elmo_tasks.embedding.corpus import NumberedSentence, batches_by_length


@settings(max_examples=50, deadline=None)
@given(lengths=st.lists(st.integers(0, 12), max_size=30), tokens=st.integers(1, 40))
def test_batches_of_any_sentences(lengths, tokens):
    """Each sentence with words once, the longest first; a larger batch would not fit, a smaller one would."""
    sentences = [NumberedSentence(number, ["w"] * length) for number, length in enumerate(lengths)]
    found = list(batches_by_length(sentences, tokens))
    together = [sentence for batch in found for sentence in batch]
    assert sorted(sentence.number for sentence in together) == [s.number for s in sentences if s.words]
    of_batches = [[len(sentence.words) for sentence in batch] for batch in found]
    ordered = [length for batch in of_batches for length in batch]
    assert ordered == sorted(ordered, reverse=True)
    for number, batch in enumerate(of_batches):
        assert len(batch) == 1 or len(batch) * batch[0] <= tokens
        assert number + 1 == len(of_batches) or (len(batch) + 1) * batch[0] > tokens
