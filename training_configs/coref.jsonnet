// End-to-end coreference resolution, the baseline of the ELMo paper: spans of up to 10 words, biLSTM 200, FFNNs of
// two layers of 150, features of 20, character CNN of 50 filters for each of the widths 3, 4 and 5 over 8d characters,
// .4 spans a word, 250 antecedents, windows of 50 sentences, one document a batch; Adam .001, clipped at 5, times .972
// an epoch (.999 each 100 of OntoNotes' 2,802 documents). The paper takes two sets of fixed vectors, 300d GloVe and the
// 50d ones of Turian et al. (2010): give text vectors of 300 dimensions as
// model.text_field_embedder.token_embedders.tokens.pretrained_file. The biLSTM's dropout is after it, not inside;
// what it reads has the lexical one.
//
// For coarse-to-fine inference as of Lee et al. 2018:  --overrides
//   '{"model.coarse_to_fine": true, "model.inference_order": 2, "model.max_antecedents": 50}'
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

training.seeds(13) + {
  dataset_reader: {
    type: 'elmo_coref',
    token_indexers: {
      tokens: { type: 'single_id' },
      token_characters: { type: 'characters', min_padding_length: 5 },
    },
  },
  train_data_path: fixture('coref/train.conll'),
  validation_data_path: fixture('coref/dev.conll'),
  // Words of the training data that occur twice; the others train the vector of unknown words.
  datasets_for_vocab_creation: ['train'],
  vocabulary: { min_count: { tokens: 2 } },
  model: {
    type: 'elmo_coref',
    text_field_embedder: {
      token_embedders: {
        tokens: { type: 'embedding', embedding_dim: 300 },
        token_characters: {
          type: 'character_encoding',
          embedding: { embedding_dim: 8, vocab_namespace: 'token_characters' },
          encoder: { type: 'cnn', embedding_dim: 8, num_filters: 50, ngram_filter_sizes: [3, 4, 5] },
        },
      },
    },
    hidden_sizes: [200],
    feedforward_sizes: [150, 150],
    feature_dim: 20,
    max_span_width: 10,
    spans_per_word: 0.4,
    max_antecedents: 250,
    max_training_sentences: 50,
    lexical_dropout: 0.5,
    dropout: 0.2,
    initializer: { regexes: [['^encoder\\..*weight', { type: 'elmo_orthogonal_gates' }]] },
  },
  data_loader: training.batches(1),
  validation_data_loader: training.evaluation_batches(1),
  trainer: training.trainer {
    optimizer: { type: 'elmo_adam', lr: 0.001 },
    learning_rate_scheduler: { type: 'exponential', gamma: 0.972 },
    grad_norm: 5.0,
    validation_metric: '+average_f1',
    num_epochs: 150,
    patience: 20,
  },
}
