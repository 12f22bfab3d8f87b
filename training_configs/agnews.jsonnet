// Topics of news, AG News: csv without a header. Of each record the description is read; for titles too,
// sentence1: ['title', 'description'].
//
// The classifier of all four data sets: 100d word vectors, one biLSTM, maximum over the tokens. It is not of the
// paper; all sizes and settings are ours.
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

training.seeds(13) + {
  dataset_reader: {
    type: 'elmo_classifier',
    format: 'csv',
    columns: ['class', 'title', 'description'],
    sentence1: 'description',
    label: 'class',
    classes: ['World', 'Sports', 'Business', 'Sci/Tech'],
    label_names: { '1': 'World', '2': 'Sports', '3': 'Business', '4': 'Sci/Tech' },
    tokenizer: { type: 'elmo_spacy', language: 'en' },
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: fixture('classification/agnews/train.csv'),
  validation_data_path: fixture('classification/agnews/dev.csv'),
  // Words of the training data that occur twice; the others train the vector of unknown words.
  datasets_for_vocab_creation: ['train'],
  vocabulary: { min_count: { tokens: 2 } },
  model: {
    type: 'elmo_classifier',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: 100 } } },
    pairs: std.objectHas($.dataset_reader, 'sentence2'),
    hidden_sizes: [128],
    pooling: 'max',
    dropout: 0.5,
  },
  // The metadata's length is that of the sentence, or of the longer one of a pair.
  data_loader: training.batches(32) + { batch_sampler+: { sorting_keys: ['metadata'] } },
  validation_data_loader: training.evaluation_batches(64) + { batch_sampler+: { sorting_keys: ['metadata'] } },
  trainer: training.trainer {
    optimizer: { type: 'elmo_adam', lr: 0.001 },
    grad_norm: 5.0,
    validation_metric: '+accuracy',
    num_epochs: 30,
    patience: 8,
  },
}
