"""
spaCy components that run archived models: `elmo_ner` sets `doc.ents`, `elmo_coref` sets `doc.spans["coref"]`.

    nlp.add_pipe("elmo_ner")  # or config={"archive": "runs/ner/model.tar.gz"}

AllenNLP is imported only when the archive is opened.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, cast

from spacy.language import Language
from spacy.scorer import get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import minibatch

from elmo_tasks.common.machine import Device
from elmo_tasks.common.values import PositiveInt, check_value
from elmo_tasks.libraries.spacy_pipe import FilesPipe, sentences

_ARCHIVE = "model.tar.gz"


class ArchivePipe(FilesPipe):
    """
    The base of components that run the predictor of an archive, which must have the registered name
    `predictor`. The archive is `model.tar.gz`, a path or URL; the folder of a run; or a name such as
    `elmo:ner`.
    """

    def __init__(self, *, name: str, archive: str, predictor: str, cuda_device: Device) -> None:
        super().__init__(name=name, sources={_ARCHIVE: archive})
        self._predictor_name = predictor
        self._cuda_device = cuda_device

    def read(self, sources: Mapping[str, str | None]) -> Any:
        """Returns the predictor; `ConfigurationError`: of another task, or a folder without weights."""
        from allennlp.common.checks import ConfigurationError
        from allennlp.models.archival import get_weights_path
        from allennlp.predictors import Predictor

        from elmo_tasks.archives import ArchiveError, local_archive, open_archive

        source = cast(str, sources[_ARCHIVE])
        path = local_archive(source)
        if path.is_dir() and not Path(get_weights_path(path)).exists():
            raise ArchiveError(
                f"{source} is a folder without weights, not {_ARCHIVE} or the folder of a run; of several "
                "models, `allennlp elmo ensemble` makes one archive"
            )
        predictor = Predictor.from_archive(open_archive(source, self._cuda_device))
        expected = Predictor.by_name(self._predictor_name)
        if not isinstance(predictor, expected):
            raise ConfigurationError(
                f"{self.name} needs an archive with the predictor {expected.__name__}; the predictor of "
                f"{source} is {type(predictor).__name__}"
            )
        return predictor

    @contextmanager
    def local(self, source: str) -> Iterator[Path]:
        """Yields the archive. For the folder of a run, it is made with the weights in use."""
        import torch
        from allennlp.models.archival import CONFIG_NAME, archive_model

        from elmo_tasks.archives import local_archive

        path = local_archive(source)
        if path.is_file():
            yield path
            return
        with TemporaryDirectory() as folder:
            weights = Path(folder, "weights.th")
            torch.save(self.content._model.state_dict(), weights)
            config = json.loads((path / CONFIG_NAME).read_text(encoding="utf-8"))
            yield Path(archive_model(path, str(weights), folder, config.get("include_in_archive")))


class NerPipe(ArchivePipe):
    """
    A component that sets the entities that a NER archive finds.

    # Parameters

    overwrite_ents : whether an entity replaces overlapping entities of earlier components, and tokens that
        are blocked (`Doc.set_ents`); if not, it is left out.
    batch_size : the sentences of a batch.
    The others : see `ArchivePipe`.
    """

    def __init__(
        self,
        nlp: Language,
        name: str,
        archive: str = "elmo:ner",
        cuda_device: Device = -1,
        batch_size: int = 32,
        overwrite_ents: bool = False,
    ) -> None:
        check_value(batch_size, PositiveInt, "batch_size")
        super().__init__(name=name, archive=archive, predictor="elmo_ner", cuda_device=cuda_device)
        self._batch_size = batch_size
        self._overwrite_ents = overwrite_ents

    def score(self, examples: Iterable[Example], **options: Any) -> dict[str, Any]:
        """Returns spaCy's scores of entities, such as `ents_f`."""
        return get_ner_prf(examples, **options)

    def annotate(self, docs: list[Doc]) -> None:
        lines = [
            (doc_index, line)
            for doc_index, doc in enumerate(docs)
            for sentence in sentences(doc)
            for line in _lines(doc, sentence)
        ]
        # Sentences of similar length together need less padding.
        lines.sort(key=lambda item: len(item[1]))
        entities: list[list[Span]] = [[] for _ in docs]
        for batch in minibatch(lines, self._batch_size):
            inputs = [{"tokens": [docs[doc_index][i].text for i in line]} for doc_index, line in batch]
            results = self.content.predict_all(inputs)
            for (doc_index, line), result in zip(batch, results, strict=True):
                entities[doc_index] += (
                    Span(docs[doc_index], line[span.start], line[span.end - 1] + 1, label=span.label)
                    for span in result.spans
                )
        for doc, spans in zip(docs, entities, strict=True):
            earlier = [*doc.ents, *_blocked(doc)]
            # `set_ents` does not remove the ids of replaced entities.
            for token in (token for span in earlier for token in span):
                token.ent_id = token.ent_kb_id = 0
            spans = self._with_earlier(earlier, spans)
            doc.set_ents(
                [span for span in spans if span.label], blocked=[span for span in spans if not span.label]
            )

    def _with_earlier(self, earlier: list[Span], spans: list[Span]) -> list[Span]:
        first, second = (spans, earlier) if self._overwrite_ents else (earlier, spans)
        taken = {token.i for span in first for token in span}
        return first + [span for span in second if taken.isdisjoint(token.i for token in span)]


def _lines(doc: Doc, token_indices: list[int]) -> Iterator[list[int]]:
    """Yields the tokens of each sentence that the lines of a text make within a sentence of spaCy."""
    from elmo_tasks.data.tokenization import line_starts

    span = doc[token_indices[0] : token_indices[-1] + 1]
    offsets = [
        (doc[i].idx - span.start_char, doc[i].idx + len(doc[i]) - span.start_char) for i in token_indices
    ]
    for start, end in pairwise([*line_starts(span.text, offsets), len(offsets)]):
        yield token_indices[start:end]


def _blocked(doc: Doc) -> list[Span]:
    """Returns the tokens that an earlier component keeps free of entities, as entities without a label."""
    return [doc[token.i : token.i + 1] for token in doc if token.ent_iob_ == "B" and not token.ent_type]


class CorefPipe(ArchivePipe):
    """
    A component that sets the mentions of all clusters as one group of spans. A mention's label is the index
    of its cluster, from "0", in the order of the clusters' first mentions. The group's key in `doc.spans` is
    `spans_key`; for the other parameters see `ArchivePipe`.
    """

    def __init__(
        self,
        nlp: Language,
        name: str,
        archive: str = "elmo:coref",
        cuda_device: Device = -1,
        spans_key: str = "coref",
    ) -> None:
        super().__init__(name=name, archive=archive, predictor="elmo_coref", cuda_device=cuda_device)
        self._spans_key = spans_key

    def annotate(self, docs: list[Doc]) -> None:
        mentions = [self._mentions(doc) for doc in docs]
        for doc, spans in zip(docs, mentions, strict=True):
            doc.spans[self._spans_key] = spans

    def _mentions(self, doc: Doc) -> list[Span]:
        """Returns the mentions; where the doc has no sentence boundaries, the predictor finds them."""
        indices_by_sentence = sentences(doc)
        token_indices = [token for sentence in indices_by_sentence for token in sentence]
        if doc.has_annotation("SENT_START"):
            content: Any = {"sentences": [[doc[i].text for i in each] for each in indices_by_sentence]}
        else:
            content = {"tokens": [doc[i].text for i in token_indices]}
        (result,) = self.content.predict_all([content])
        return [
            Span(doc, token_indices[first], token_indices[last] + 1, label=str(cluster_index))
            for cluster_index, cluster in enumerate(result.clusters)
            for first, last in cluster
        ]


make_ner = Language.factory("elmo_ner", assigns=["doc.ents", "token.ent_iob", "token.ent_type"], func=NerPipe)
make_coref = Language.factory("elmo_coref", assigns=["doc.spans"], func=CorefPipe)
