// The archive `snli`: inference, see models/README.md. ELMo is its only input.
local base = import '../snli_elmo.jsonnet';

base {
  dataset_reader+: { token_indexers: { elmo: base.dataset_reader.token_indexers.elmo } },
  vocabulary: {},
  model+: { text_field_embedder: { token_embedders: {} }, hidden_size: 128 },
  trainer+: { num_epochs: 12, patience: 4 },
}
