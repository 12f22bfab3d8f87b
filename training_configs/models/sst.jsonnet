// The archive `sst`: sentiment in five classes, see models/README.md. Its input is ELMo, and short word vectors.
local elmo = import '../lib/elmo.libsonnet';

(import '../sst_elmo.jsonnet') + elmo.plug('input', dropout=0.3, mix_l2=0.001) + {
  dataset_reader+: { min_phrase_tokens: 3 },
  model+: {
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: 50 } } },
    projection_size: 128,
    hidden_size: 128,
    classifier_sizes: [128],
    dropout: 0.3,
    classifier_dropout: 0.4,
    scaled_attention: false,
  },
  data_loader+: { batch_sampler+: { batch_size: 64 } },
  trainer+: {
    optimizer+: { lr: 0.001 },
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    num_epochs: 4,
  },
}
