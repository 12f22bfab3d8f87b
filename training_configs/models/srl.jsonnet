// The archive `srl`: the arguments of verbs, nouns and adjectives, see models/README.md. ELMo is its only input.
local base = import '../srl_elmo.jsonnet';

base {
  dataset_reader+: { token_indexers: { elmo: base.dataset_reader.token_indexers.elmo } },
  vocabulary: {},
  model+: {
    text_field_embedder: { token_embedders: {} },
    predicate_dim: 50,
    hidden_size: 192,
    num_layers: 4,
    dropout: 0.15,
    elmo+: { placement: 'input+output', dropout: 0.25 },
  },
  data_loader+: { batch_sampler+: { batch_size: 64 } },
  validation_data_loader+: { batch_sampler+: { batch_size: 200 } },
  trainer+: {
    optimizer: { type: 'elmo_adam', lr: 0.002 },
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    num_epochs: 8,
  },
}
