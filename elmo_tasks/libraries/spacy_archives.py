"""
spaCy components that run archived models: `elmo_ner` sets `doc.ents` and their `_.elmo_probability`,
`elmo_coref` and `elmo_srl` set `doc.spans`, and `elmo_classifier` sets `doc.cats`.

    nlp.add_pipe("elmo_ner")  # or config={"archive": "runs/ner/model.tar.gz"}

AllenNLP is imported when a component is made.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, cast

from spacy.language import Language
from spacy.scorer import Scorer, get_ner_prf
from spacy.tokens import Doc, Span
from spacy.training import Example
from spacy.util import minibatch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.machine import Device
from elmo_tasks.common.values import PositiveInt, check_value
from elmo_tasks.libraries.spacy_pipe import FilesPipe, sentences

_ARCHIVE = "model.tar.gz"


class ArchivePipe(FilesPipe):
    """
    The base of components that run the predictor of an archive, one of the registered names `predictors`. The
    archive is `model.tar.gz`, a path or URL; the folder of a run; or a name such as `elmo:ner`. `batch_size`
    is the number of sentences, or of texts to classify, in a batch. An archive that is here is opened at
    once; a model of another task is a `ConfigurationError`.
    """

    predictors: ClassVar[Sequence[str]]

    def __init__(
        self, nlp: Language, name: str, archive: str, cuda_device: Device = -1, batch_size: int = 32
    ) -> None:
        from elmo_tasks.archives.opening import archive_path

        check_value(batch_size, PositiveInt, "batch_size")
        super().__init__(name=name, sources={_ARCHIVE: archive})
        self._cuda_device = cuda_device
        self._batch_size = batch_size
        # A saved pipeline has its own archive; the one that its config names may be gone, or damaged.
        with suppress(OSError, ElmoError):
            if Path(archive_path(archive)).expanduser().exists():
                self._content = self.read(self._sources)

    def read(self, sources: Mapping[str, str | None]) -> Any:
        from allennlp.common.checks import ConfigurationError
        from allennlp.predictors import Predictor

        from elmo_tasks.archives import open_archive

        source = cast(str, sources[_ARCHIVE])
        predictor = Predictor.from_archive(open_archive(source, self._cuda_device))
        expected = tuple(map(Predictor.by_name, self.predictors))
        if not isinstance(predictor, expected):
            names = " or ".join(predictor_class.__name__ for predictor_class in expected)
            raise ConfigurationError(
                f"{self.name} needs an archive with the predictor {names}; the predictor of {source} is "
                f"{type(predictor).__name__}"
            )
        return predictor

    def of_sentences(self, docs: list[Doc]) -> list[list[tuple[list[int], Any]]]:
        """Returns for each doc its sentences, as the indices of their tokens, with their results."""
        parts = [
            (number, line)
            for number, doc in enumerate(docs)
            for sentence in sentences(doc)
            for line in _lines(doc, sentence)
        ]
        results: list[list[tuple[list[int], Any]]] = [[] for _ in docs]
        # Sentences of similar length together need less padding.
        for batch in minibatch(sorted(parts, key=lambda part: len(part[1])), self._batch_size):
            inputs = ({"tokens": [docs[number][i].text for i in line]} for number, line in batch)
            for (number, line), result in zip(batch, self.content.predict_all(inputs), strict=True):
                results[number].append((line, result))
        return results

    @contextmanager
    def local(self, source: str) -> Iterator[Path]:
        """Yields the archive. For the folder of a run, it is made with the weights in use."""
        import torch
        from allennlp.models.archival import archive_model

        from elmo_tasks.archives.opening import local_archive

        path = local_archive(source)
        if path.is_file():
            yield path
            return
        with TemporaryDirectory() as folder:
            weights = Path(folder, "weights.th")
            torch.save(self.content._model.state_dict(), weights)
            yield Path(archive_model(path, str(weights), folder))


class NerPipe(ArchivePipe):
    """
    A component that sets the entities that a NER archive finds, and the `_.elmo_probability` of each, which
    is `None` for other spans. It is kept in `doc.user_data`.

    # Parameters

    overwrite_ents : whether an entity replaces overlapping entities of earlier components; if not, it is
        left out.
    The others : see `ArchivePipe`.
    """

    predictors = ("elmo_ner",)

    def __init__(
        self,
        nlp: Language,
        name: str,
        archive: str = "elmo:ner",
        cuda_device: Device = -1,
        batch_size: int = 32,
        overwrite_ents: bool = False,
    ) -> None:
        super().__init__(nlp, name, archive, cuda_device, batch_size)
        self._overwrite_ents = overwrite_ents

    def score(self, examples: Iterable[Example], **options: Any) -> dict[str, Any]:
        return get_ner_prf(examples, **options)

    def annotate(self, docs: list[Doc]) -> None:
        for doc, results in zip(docs, self.of_sentences(docs), strict=True):
            found = {
                Span(doc, line[span.start], line[span.end - 1] + 1, label=span.label): probability
                for line, result in results
                for span, probability in zip(result.spans, result.probabilities, strict=True)
            }
            earlier = list(doc.ents)
            first, second = (list(found), earlier) if self._overwrite_ents else (earlier, list(found))
            taken = {token.i for span in first for token in span}
            kept = first + [span for span in second if taken.isdisjoint(token.i for token in span)]
            doc.set_ents(kept)
            for span in kept:
                if span in found:
                    span._.elmo_probability = found[span]


def _lines(doc: Doc, token_indices: list[int]) -> Iterator[list[int]]:
    """Yields the tokens of each sentence that the lines of a text make within a sentence of spaCy."""
    from elmo_tasks.data.line_starts import line_starts

    span = doc[token_indices[0] : token_indices[-1] + 1]
    offsets = [
        (doc[i].idx - span.start_char, doc[i].idx + len(doc[i]) - span.start_char) for i in token_indices
    ]
    for start, end in pairwise([*line_starts(span.text, offsets), len(offsets)]):
        yield token_indices[start:end]


class CorefPipe(ArchivePipe):
    """
    A component that sets the mentions of all clusters as one group of spans. A mention's label is the index
    of its cluster, from "0", in the order of the clusters' first mentions. The group's key in `doc.spans` is
    `spans_key`; for the other parameters see `ArchivePipe`.
    """

    predictors = ("elmo_coref",)

    def __init__(
        self,
        nlp: Language,
        name: str,
        archive: str = "elmo:coref",
        cuda_device: Device = -1,
        spans_key: str = "coref",
    ) -> None:
        super().__init__(nlp, name, archive, cuda_device)
        self._spans_key = spans_key

    def annotate(self, docs: list[Doc]) -> None:
        mentions = [self._mentions(doc) for doc in docs]
        for doc, spans in zip(docs, mentions, strict=True):
            doc.spans[self._spans_key] = spans

    def _mentions(self, doc: Doc) -> list[Span]:
        indices_by_sentence = sentences(doc)
        token_indices = [token for sentence in indices_by_sentence for token in sentence]
        if doc.has_annotation("SENT_START"):
            content: Any = {
                "sentences": [[doc[i].text for i in sentence] for sentence in indices_by_sentence]
            }
        else:
            content = {"tokens": [doc[i].text for i in token_indices]}
        (result,) = self.content.predict_all([content])
        return [
            Span(doc, token_indices[first], token_indices[last] + 1, label=str(cluster_index))
            for cluster_index, cluster in enumerate(result.clusters)
            for first, last in cluster
        ]


class SrlPipe(ArchivePipe):
    """
    A component that sets the arguments of all predicates as one group of spans. A span's label is its role,
    `V` for the predicate itself, and its `id_` is the index of the predicate's token. So is its `kb_id_`,
    which `doc.to_json` keeps, and displaCy shows after the label. The group's key in `doc.spans` is
    `spans_key`; for the other parameters see `ArchivePipe`.
    """

    predictors = ("elmo_srl",)

    def __init__(
        self,
        nlp: Language,
        name: str,
        archive: str = "elmo:srl",
        cuda_device: Device = -1,
        batch_size: int = 32,
        spans_key: str = "srl",
    ) -> None:
        super().__init__(nlp, name, archive, cuda_device, batch_size)
        self._spans_key = spans_key

    def annotate(self, docs: list[Doc]) -> None:
        for doc, results in zip(docs, self.of_sentences(docs), strict=True):
            spans = [
                Span(
                    doc,
                    line[start],
                    line[end - 1] + 1,
                    argument["label"],
                    kb_id=index,
                    span_id=index,
                )
                for line, result in results
                for predicate in result.to_json()["predicates"]
                for index in [str(line[predicate["index"]])]
                for argument in predicate["arguments"]
                for start, end in argument["spans"]
            ]
            doc.spans[self._spans_key] = sorted(spans, key=lambda span: (int(span.id_), span.start))


class ClassifierPipe(ArchivePipe):
    """
    A component that sets the probability of each class of a classifier, or of a model of sentiment, in
    `doc.cats`. A doc without words gets none. For the parameters see `ArchivePipe`.
    """

    predictors = ("elmo_classifier", "elmo_sst")

    def read(self, sources: Mapping[str, str | None]) -> Any:
        from allennlp.common.checks import ConfigurationError

        predictor = super().read(sources)
        if len(names := list(predictor.forms[0])) > 1:
            reads = f"the model of {sources[_ARCHIVE]} reads {' and '.join(names)}"
            raise ConfigurationError(f"{self.name} classifies single texts, and {reads}")
        return predictor

    def score(self, examples: Iterable[Example], **options: Any) -> dict[str, Any]:
        examples = list(examples)
        labels = sorted({label for example in examples for label in example.predicted.cats})
        return Scorer.score_cats(examples, "cats", **{"labels": labels, "multi_label": False, **options})

    def annotate(self, docs: list[Doc]) -> None:
        results: list[Any] = []
        for batch in minibatch(docs, self._batch_size):
            texts = ([token.text for token in doc if not token.is_space] for doc in batch)
            results += self.content.predict_all({"tokens": words} for words in texts)
        for doc, result in zip(docs, results, strict=True):
            doc.cats.update(result.probabilities)


if not Span.has_extension("elmo_probability"):
    Span.set_extension("elmo_probability", default=None)

make_ner = Language.factory(
    "elmo_ner",
    assigns=["doc.ents", "token.ent_iob", "token.ent_type", "span._.elmo_probability"],
    func=NerPipe,
)
make_coref = Language.factory("elmo_coref", assigns=["doc.spans"], func=CorefPipe)
make_srl = Language.factory("elmo_srl", assigns=["doc.spans"], func=SrlPipe)
make_classifier = Language.factory(
    "elmo_classifier", assigns=["doc.cats"], func=ClassifierPipe, default_config={"archive": "elmo:topics"}
)
