// The archive `sst`: sentiment in five classes, see models/README.md. Its input is ELMo, and short word vectors.
local base = import '../sst_elmo.jsonnet';

base {
  dataset_reader+: { min_phrase_tokens: 3 },
  model+: {
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: 50 } } },
    projection_size: 128,
    hidden_size: 100,
    classifier_sizes: [100],
  },
  data_loader+: { batch_sampler+: { batch_size: 64 } },
  trainer+: {
    optimizer+: { lr: 0.0008 },
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    num_epochs: 3,
  },
}
