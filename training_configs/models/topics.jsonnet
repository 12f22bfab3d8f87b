// The archive `topics`: the topic of a news description, see models/README.md. ELMo is its only input.
local base = import '../agnews_elmo.jsonnet';

base {
  dataset_reader+: { token_indexers: { elmo: base.dataset_reader.token_indexers.elmo } },
  vocabulary: {},
  model+: { text_field_embedder: { token_embedders: {} } },
  trainer+: { num_epochs: 15 },
}
