// The archive `snli`: inference between two sentences, see models/README.md. ELMo is its only input.
local base = import '../snli_elmo.jsonnet';

base {
  dataset_reader+: { token_indexers: { elmo: base.dataset_reader.token_indexers.elmo } },
  vocabulary: {},
  model+: {
    text_field_embedder: { token_embedders: {} },
    hidden_size: 128,
    dropout: 0.4,
    attention_dropout: 0.2,
  },
  data_loader+: { batch_sampler+: { batch_size: 32 } },
  validation_data_loader+: { batch_sampler+: { batch_size: 128 } },
  trainer+: {
    optimizer+: { lr: 0.0012 },
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    num_epochs: 10,
  },
}
