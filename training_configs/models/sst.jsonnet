// The archive `sst`: sentiment of five classes, see models/README.md. ELMo is its only input.
local base = import '../sst_elmo.jsonnet';
local reader = base.dataset_reader { token_indexers: { elmo: base.dataset_reader.token_indexers.elmo } };

base {
  dataset_reader: reader { min_phrase_tokens: 12 },
  validation_dataset_reader: reader { min_phrase_tokens: null },
  vocabulary: {},
  model+: {
    text_field_embedder: { token_embedders: {} },
    projection_size: 128,
    hidden_size: 128,
    classifier_sizes: [128, 128],
  },
  trainer+: { optimizer+: { lr: 0.0005 }, num_epochs: 8, patience: 3 },
}
