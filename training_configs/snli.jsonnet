// ESIM, the SNLI baseline of the ELMo paper: all sizes 300, dropout .5, ReLU; Adam .0004, halved when dev accuracy
// does not rise, clipped at 5, batches of 32. The paper takes fixed 300d GloVe vectors: give them as
// model.text_field_embedder.token_embedders.tokens.pretrained_file, with trainable: false.
// Epochs and patience are ours, not the supplement's, and so are lower case and the words that are known.
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;
// A batch is as long as its longest premise or hypothesis; the metadata's length is the length of the longer one.
local by_length = { batch_sampler+: { sorting_keys: ['metadata'] } };

training.seeds(13) + {
  dataset_reader: {
    type: 'elmo_snli',
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: fixture('snli/train.jsonl'),
  validation_data_path: fixture('snli/dev.jsonl'),
  // A premise's word counts once for each of its pairs; those that count once train the vector of unknown words.
  datasets_for_vocab_creation: ['train'],
  vocabulary: { min_count: { tokens: 2 } },
  model: {
    type: 'elmo_snli',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: 300 } } },
    hidden_size: 300,
    dropout: 0.5,
    attention_dropout: 0.0,
  },
  data_loader: training.batches(32) + by_length,
  validation_data_loader: training.evaluation_batches(64) + by_length,
  trainer: training.trainer {
    optimizer: { type: 'elmo_adam', lr: 0.0004 },
    learning_rate_scheduler: { type: 'reduce_on_plateau', mode: 'max', factor: 0.5, patience: 0 },
    grad_norm: 5.0,
    validation_metric: '+accuracy',
    num_epochs: 40,
    patience: 10,
  },
}
