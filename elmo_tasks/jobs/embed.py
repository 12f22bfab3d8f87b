"""The vectors of a text, shard by shard."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch

from elmo_tasks.common.errors import ElmoError
from elmo_tasks.common.files import not_utf8
from elmo_tasks.elmo.files import move_to
from elmo_tasks.elmo.model import LstmState
from elmo_tasks.embedding.batches import BatchEncoder, NumberedSentence, windows
from elmo_tasks.embedding.corpus import END_OF_KEY, MAX_TOKENS
from elmo_tasks.jobs.engines import Job
from elmo_tasks.jobs.runs import Content, Outcome, Shard, note_name, read_json


@dataclass(kw_only=True)
class EmbedJob(Job):
    """
    The vectors that are asked for. A worker puts its biLM on the `device`. With `skip_bad`, lines that cannot
    be read are noted as rejected. With `has_keys`, the text is a `Corpus` whose lines have keys.
    """

    encoder: BatchEncoder
    device: str
    skip_bad: bool = False
    has_keys: bool = False

    @property
    def nbytes(self) -> int:
        return sum(weight.nbytes for weight in self.encoder.bilm.weights().values())

    @property
    def on_gpu(self) -> bool:
        return self.device != "cpu"

    def open(self) -> None:
        bilm = move_to(self.encoder.bilm, self.device, option="--device")
        start = LstmState(*(part.to(bilm.device) for part in self.encoder.start))
        bilm.prepare()
        self.encoder = replace(self.encoder, bilm=bilm, start=start)

    def __call__(self, shard: Shard, contents: list[Content]) -> Outcome:
        sink, encoder = self.sink, self.encoder
        if encoder.stateful and encoder.state is None:
            encoder.state = self._state_before(shard)
        rejects: list[dict[str, Any]] = []
        sentences = tokens = 0
        with sink.part(shard) as write:
            for window in windows(self._sentences(shard, contents, rejects), tokens=sink.window_tokens):
                write(window, self._vectors(shard, window))
                sentences += len(window)
                tokens += sum(len(sentence.words) for sentence in window)
        counts = {"sentences": sentences, "tokens": tokens, "rejected": len(rejects)}
        state = None if encoder.state is None else [part.tolist() for part in encoder.state]
        return sink.done(shard, counts, rejects=rejects, state=state)

    def _state_before(self, shard: Shard) -> LstmState:
        """Returns the state that the shard before has noted; the first one, if there is none."""
        if not shard.number:
            return self.encoder.start
        noted = read_json(self.sink.folder, note_name(shard.number - 1))["state"]
        if noted is None:  # there were blank lines alone
            return self.encoder.start
        return LstmState(*(torch.tensor(part, device=self.encoder.bilm.device) for part in noted))

    def _sentences(
        self, shard: Shard, contents: list[Content], rejects: list[dict[str, Any]]
    ) -> Iterator[NumberedSentence]:
        for line, content in enumerate(contents, start=shard.line):
            if self.has_keys:
                content = content.partition(END_OF_KEY.encode())[2]
            try:
                yield NumberedSentence(line, tokens_of(content))
            except ValueError as error:
                if not self.skip_bad:
                    raise ElmoError(str(error), where=shard.source, line=line) from error
                rejects.append(
                    {"source": shard.source, "line": line, "reason": str(error), "content": _shown(content)}
                )

    def _vectors(self, shard: Shard, window: list[NumberedSentence]) -> list[np.ndarray]:
        try:
            return self.encoder.vectors(window)
        except ElmoError as error:
            raise ElmoError(error.what, where=shard.source, line=error.line) from error


def tokens_of(content: Content) -> list[str]:
    """Returns the tokens of a line in bytes, a text or a list. Anything else is a `ValueError`."""
    if isinstance(content, bytes):
        try:
            content = content.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(not_utf8(error)) from error
    tokens = content.split() if isinstance(content, str) else content
    if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
        raise ValueError(f"{_shown(content)[:60]} is neither a text nor a list of tokens")
    if len(tokens) > MAX_TOKENS:
        raise ValueError(f"{len(tokens):,} tokens are more than the {MAX_TOKENS:,} of a sentence")
    return tokens


def _shown(content: Content) -> str:
    return content.decode("utf-8", "backslashreplace") if isinstance(content, bytes) else repr(content)
