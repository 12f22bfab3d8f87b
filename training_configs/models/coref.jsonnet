// The archive `coref`: mentions of the same thing, see models/README.md. ELMo is its only input.
local base = import '../coref_elmo.jsonnet';

base {
  dataset_reader+: { token_indexers: { elmo: base.dataset_reader.token_indexers.elmo } },
  vocabulary: {},
  model+: {
    text_field_embedder: { token_embedders: {} },
    hidden_sizes: [128],
    feedforward_sizes: [128, 128],
    max_span_width: 8,
    max_antecedents: 100,
    max_training_sentences: 25,
    lexical_dropout: 0.4,
    antecedent_bonus: 1.0,
  },
  trainer+: {
    optimizer+: { lr: 0.001 },
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    num_epochs: 7,
  },
}
