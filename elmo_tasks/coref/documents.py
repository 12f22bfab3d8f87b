"""Documents with coreference chains."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any

from elmo_tasks.data.fields import Metadata, ids_of
from elmo_tasks.data.formats.coreference import NO_SPEAKER, check_sentences, document_values
from elmo_tasks.data.input_files import InputError, NoWordsError, shorten_json
from elmo_tasks.data.reader import join_words
from elmo_tasks.data.tokenization import Words

Mention = tuple[int, int]
"""First and last token, both inclusive, counted from the first token of the document."""
Cluster = list[Mention]


@dataclass
class CorefDocument(Metadata):
    """A document, or one part of it, with its text and, if known, its gold clusters."""

    id: str
    sentences: list[list[str]]
    speakers: list[str]
    """The speaker of each token, `-` if unknown."""
    clusters: list[Cluster] | None = None
    """The gold clusters and their mentions, in the order of the text."""
    words: Words = field(kw_only=True)
    """All tokens, with their offsets in the text."""
    joined: int = 0
    """The number of annotated clusters that were joined to others."""

    def __len__(self) -> int:
        return len(self.words.words)

    @classmethod
    def of(
        cls,
        sentences: list[list[str]],
        *,
        id: str = "",
        speakers: list[list[str]] | None = None,
        clusters: Sequence[Sequence[Sequence[int]]] | None = None,
        words: Words | None = None,
    ) -> "CorefDocument":
        """
        Returns the document of values, which are checked. Clusters with a mention in common are joined, as in
        other systems for OntoNotes. `words` are the words in their text, by default joined by blanks.

        # Raises
        `InputError`: a value of another type, no sentence, a sentence without words, other numbers of
        speakers than of words, or a span that is outside the document or ends before it starts.
        """
        check_sentences("sentences", sentences)
        if not any(sentences):
            raise NoWordsError("the document has no words")
        if not all(sentences):
            raise InputError('"sentences" has a sentence without words')
        if speakers is None:
            speakers = [[NO_SPEAKER] * len(sentence) for sentence in sentences]
        check_sentences("speakers", speakers)
        if list(map(len, speakers)) != list(map(len, sentences)):
            raise InputError('"speakers" needs one name for each word of each sentence')
        tokens = list(chain.from_iterable(sentences))
        gold = None if clusters is None else _clusters(clusters, len(tokens))
        return cls(
            id,
            sentences,
            [name or NO_SPEAKER for name in chain.from_iterable(speakers)],
            gold,
            words=words or join_words(tokens),
            joined=sum(map(bool, clusters or ())) - len(gold or ()),
        )

    @classmethod
    def from_record(cls, values: dict[str, Any]) -> "CorefDocument":
        """Returns the document of a record of any format, see `data.formats.coreference`."""
        content = document_values(values)
        document = cls.of(
            content["sentences"],
            id=str(content.get("doc_key", content.get("id", ""))),
            speakers=content.get("speakers"),
            clusters=content.get("clusters"),
        )
        document.ids = ids_of(values)
        return document


def _clusters(clusters: Any, tokens: int) -> list[Cluster]:
    """Checks clusters, joins those with a mention in common, and sorts them in the order of the text."""
    if not isinstance(clusters, list) or not all(isinstance(cluster, list) for cluster in clusters):
        raise InputError(f'"clusters" is not a list of lists of mentions: {shorten_json(clusters)}')
    cluster_of: dict[Mention, set[Mention]] = {}
    for cluster in clusters:
        mentions = {_mention(span, tokens) for span in cluster}
        mentions = mentions.union(*(cluster_of.get(mention, ()) for mention in mentions))
        cluster_of |= dict.fromkeys(mentions, mentions)
    different = {id(mentions): sorted(mentions) for mentions in cluster_of.values()}
    return sorted(different.values())


def _mention(span: Any, tokens: int) -> Mention:
    if isinstance(span, (list, tuple)) and len(span) == 2 and all(type(end) is int for end in span):
        first, last = span
        if 0 <= first <= last < tokens:
            return first, last
    form = f"[first token, last token], in order and from 0 to {tokens - 1}"
    raise InputError(f'"clusters" has the mention {shorten_json(span)}, which is not {form}')
