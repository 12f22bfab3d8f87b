// Clark and Gardner 2017, the SQuAD baseline of the ELMo paper: cased 300d word vectors, character CNN, shared biGRU
// 90, bidirectional attention, layers of 180, self-attention, chained biGRUs; variational dropout .2, Adadelta, batches
// of 45, weight EMA .999, answers of at most 17 tokens. The paper takes fixed GloVe vectors: give them as
// model.text_field_embedder.token_embedders.tokens.pretrained_file, with trainable: false, and take their most frequent
// words into the vocabulary+: { pretrained_files: { tokens: FILE }, min_pretrained_embeddings: { tokens: 50000 } }.
// Characters (20d, 100 filters of width 5) are from Clark and Gardner; the windows, epochs and patience are ours.
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;
// The questions of a passage stand together, so that it is embedded and read once for all.
local together = {
  batch_sampler+: { type: 'elmo_grouped_bucket', group: 'paragraph', sorting_keys: ['passage'] },
};

training.seeds(13) + {
  dataset_reader: {
    type: 'elmo_squad',
    token_indexers: {
      tokens: { type: 'single_id' },
      token_characters: { type: 'characters', min_padding_length: 1 },
    },
    training_answer: 'first',
    unanswerable: false,  // true for SQuAD 2.0, with no_answer below
  },
  train_data_path: fixture('squad/train.json'),
  validation_data_path: fixture('squad/dev.json'),
  // A passage's word counts once for each of its questions; those that count once train the vector of unknown words.
  datasets_for_vocab_creation: ['train'],
  vocabulary: { min_count: { tokens: 2 } },
  model: {
    type: 'elmo_squad',
    text_field_embedder: {
      token_embedders: {
        tokens: { type: 'embedding', embedding_dim: 300 },
        token_characters: { type: 'elmo_character_cnn', embedding_dim: 20, num_filters: 100, width: 5 },
      },
    },
    hidden_size: 90,
    linear_size: 180,
    dropout: 0.2,
    longest_answer: 17,
    window: 400,
    overlap: 100,
    no_answer: false,
  },
  data_loader: training.batches(45) + together,
  validation_data_loader: training.evaluation_batches(45) + together,
  trainer: training.trainer {
    optimizer: { type: 'adadelta', lr: 1.0, rho: 0.95 },
    moving_average: { type: 'exponential', decay: 0.999 },
    validation_metric: '+f1',
    num_epochs: 40,
    patience: 10,
  },
}
