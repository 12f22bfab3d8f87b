// A small biLM from scratch on the text of a task, read and split into words by the task's own reader: the first of two
// stages. An epoch is the whole text, sentence by sentence, each from zeros, as the task will read it. The run ends
// when the perplexity of the validation data no longer falls.
local training = import 'training.libsonnet';

{
  characters:: (import '../bilm.jsonnet') + {
    local config = self,
    task:: error 'pre-training needs the config of a task',
    epochs:: 30,
    dataset_reader+: {
      source: config.task.dataset_reader,
      streams: 32,
      bptt_steps: null,
      passage: 1,
      shuffle_buffer: 100000,
    },
    train_data_path: config.task.train_data_path,
    validation_data_path: config.task.validation_data_path,
    model+: {
      options: {
        lstm: { cell_clip: 3, proj_clip: 3, use_skip_connections: true, n_layers: 2, dim: 256, projection_dim: 64 },
        char_cnn: {
          embedding: { dim: 16 },
          filters: [[1, 32], [2, 32], [3, 64], [4, 64]],
          n_highway: 1,
          n_characters: 262,
          max_characters_per_token: 50,
          activation: 'relu',
        },
      },
      dropout: 0.3,
    },
    data_loader: training.blocks,
    trainer+: { learning_rate_scheduler: null, patience: 3 },
  },

  // The same, reading words, whose vectors are as large as the LSTM, without a projection.
  words:: self.characters + {
    dataset_reader+: { input: 'words' },
    model+: {
      options: {
        lstm: { cell_clip: 0, proj_clip: 0, use_skip_connections: true, n_layers: 2, dim: 128, projection_dim: 128 },
      },
    },
  },
}
