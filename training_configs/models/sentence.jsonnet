// The archive `sentence`: vectors of sentences, see models/README.md. ELMo is its only input.
local base = import '../sentence_elmo.jsonnet';

base {
  dataset_reader+: { token_indexers: { elmo: base.dataset_reader.token_indexers.elmo } },
  vocabulary: {},
  model+: { text_field_embedder: { token_embedders: {} } },
}
