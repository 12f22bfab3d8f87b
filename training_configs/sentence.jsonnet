// Vectors of sentences that learn from several tasks, after Conneau et al. (2017): a layer, the maximum over the
// tokens, and a head for each task of the data. All sizes and settings are ours.
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;
// A batch has sentences of one task, of similar length: pairs without a label are told from the others of their batch.
local by_task = { batch_sampler+: { type: 'elmo_grouped_bucket', group: 'task', sorting_keys: ['metadata'] } };

training.seeds(13) + {
  dataset_reader: {
    type: 'elmo_sentence',
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: fixture('sentence/train.jsonl'),
  validation_data_path: fixture('sentence/dev.jsonl'),
  datasets_for_vocab_creation: ['train'],
  vocabulary: { min_count: { tokens: 2 } },
  model: {
    type: 'elmo_sentence',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: 100 } } },
    size: 1024,
    head_size: 256,
    dropout: 0.1,
  },
  data_loader: training.batches(96) + by_task,
  validation_data_loader: training.evaluation_batches(96) + by_task,
  trainer: training.trainer {
    optimizer: { type: 'elmo_adam', lr: 0.0015 },
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    grad_norm: 5.0,
    validation_metric: '+accuracy',
    num_epochs: 4,
  },
}
