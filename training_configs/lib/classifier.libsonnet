// The classifier of all sentence classification: 100d word vectors, one biLSTM, maximum over the tokens. It is not of
// the paper; all sizes and settings are ours.
local elmo = import 'elmo.libsonnet';
local fixture = (import 'paths.libsonnet').fixture;
local training = import 'training.libsonnet';

{
  config:: training.seeds(13) + {
    local config = self,
    dataset_reader: error 'a classifier needs the dataset_reader of its task',
    train_data_path: error 'a classifier needs train_data_path',
    validation_data_path: error 'a classifier needs validation_data_path',
    // Words of the training data that occur twice; the others train the vector of unknown words.
    datasets_for_vocab_creation: ['train'],
    vocabulary: { min_count: { tokens: 2 } },
    model: {
      type: 'elmo_classifier',
      text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: 100 } } },
      pairs: std.objectHas(config.dataset_reader, 'sentence2'),
      hidden_sizes: [128],
      pooling: 'max',
      dropout: 0.5,
    },
    // The metadata's length is the length of the sentence, or of the longer one of a pair.
    data_loader: training.batches(32) + { batch_sampler+: { sorting_keys: ['metadata'] } },
    validation_data_loader: training.evaluation_batches(64) + { batch_sampler+: { sorting_keys: ['metadata'] } },
    trainer: training.trainer {
      optimizer: { type: 'elmo_adam', lr: 0.001 },
      grad_norm: 5.0,
      validation_metric: '+accuracy',
      num_epochs: 30,
      patience: 8,
    },
  },

  // ELMo at the input of the biLSTM and at its output, before the maximum. The dropouts of the classifier also
  // apply to the ELMo vectors.
  elmo:: elmo.plug('input+output'),

  // The same with a biLM that reads words. The fixtures' biLM is tiny, and shows only that all works.
  word_elmo:: $.elmo + {
    dataset_reader+: { token_indexers+: { elmo: { type: 'elmo_word_ids' } } },
    model+: {
      elmo+: {
        options_file: fixture('classification/elmo_words/options.json'),
        weight_file: fixture('classification/elmo_words/weights.safetensors'),
        vocabulary_file: fixture('classification/elmo_words/vocab.txt'),
      },
    },
  },
}
