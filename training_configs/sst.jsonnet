// The biattentive classification network of McCann et al. (2017) as in the ELMo paper: biLSTM 300, two ReLU layers
// instead of maxout; trained on all phrases of four or more tokens, Adam 1e-4. The paper's vectors are 300d GloVe,
// fixed: give text vectors of that size as model.text_field_embedder.token_embedders.tokens.pretrained_file, and
// `trainable: false` next to it. The sizes of the ReLU layers, the dropout probabilities, the clipping, the batch size
// and the patience are ours, not the supplement's. AllenNLP's public config has Adam .001, batches of 100, phrases of
// any length and maxout.
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

training.seeds(13) + {
  dataset_reader: {
    type: 'elmo_sst',
    granularity: 5,
    min_phrase_tokens: 4,
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  // Scores are of sentences. With --overrides, `granularity` is given to both readers.
  validation_dataset_reader: self.dataset_reader { min_phrase_tokens: null },
  train_data_path: fixture('sst/train.txt'),
  validation_data_path: fixture('sst/dev.txt'),
  // Words of two sentences of the training data; the others train the vector of unknown words.
  datasets_for_vocab_creation: ['train'],
  vocabulary: { min_count: { tokens: 2 } },
  model: {
    type: 'elmo_sst',
    text_field_embedder: {
      token_embedders: { tokens: { type: 'embedding', embedding_dim: 300 } },
    },
    projection_size: 300,
    hidden_size: 300,
    classifier_sizes: [300, 300],
    dropout: 0.25,
    classifier_dropout: 0.25,
  },
  data_loader: training.batches(32),
  validation_data_loader: training.evaluation_batches(64),
  trainer: training.trainer {
    optimizer: { type: 'elmo_adam', lr: 0.0001 },
    grad_norm: 5.0,
    validation_metric: '+accuracy',
    num_epochs: 20,
    patience: 5,
  },
}
