// The biLSTM-CRF baseline of the ELMo paper: 50d word vectors, character CNN (16d, 128 filters of width 3),
// biLSTM 200 then 100, CRF; Adam .001, clipped at 5. The paper takes the 50d vectors of Collobert et al. (2011):
// give text vectors of that size as model.text_field_embedder.token_embedders.tokens.pretrained_file.
// The batch size, the dropout probability and the patience are ours, not the supplement's.
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

training.seeds(13) + {
  dataset_reader: {
    type: 'elmo_ner',
    token_indexers: {
      tokens: { type: 'single_id', lowercase_tokens: true },
      token_characters: { type: 'characters', min_padding_length: 1 },
    },
  },
  train_data_path: fixture('ner/train.conll'),
  validation_data_path: fixture('ner/dev.conll'),
  // Words of the training data that occur twice; the others train the vector of unknown words.
  datasets_for_vocab_creation: ['train'],
  vocabulary: { min_count: { tokens: 2 } },
  model: {
    type: 'elmo_ner',
    text_field_embedder: {
      token_embedders: {
        tokens: { type: 'embedding', embedding_dim: 50 },
        token_characters: { type: 'elmo_character_cnn', embedding_dim: 16, num_filters: 128, width: 3 },
      },
    },
    hidden_sizes: [200, 100],
    dropout: 0.5,
  },
  data_loader: training.batches(8),
  validation_data_loader: training.evaluation_batches(64),
  trainer: training.trainer {
    optimizer: { type: 'elmo_adam', lr: 0.001 },
    grad_norm: 5.0,
    validation_metric: '+f1',
    num_epochs: 40,
    patience: 10,
  },
}
