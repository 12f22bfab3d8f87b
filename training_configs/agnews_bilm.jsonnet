// A small biLM from scratch on the text of a task, read and split into words by the task's own reader: the first of two
// stages.
//
//   allennlp train training_configs/agnews_bilm.jsonnet -s runs/agnews_bilm
//   allennlp elmo export runs/agnews_bilm/model.tar.gz runs/agnews_elmo
//   allennlp train training_configs/agnews_elmo.jsonnet -s runs/agnews --overrides '{
//     "model.elmo.options_file": "runs/agnews_elmo/options.json",
//     "model.elmo.weight_file": "runs/agnews_elmo/weights.hdf5"}'
//
// An epoch is the whole text, sentence by sentence, each from zeros, as the task will read it. The run ends when the
// perplexity of the validation data no longer falls.
local training = import 'lib/training.libsonnet';

(import 'bilm.jsonnet') + {
  task:: import 'agnews.jsonnet',
  epochs:: 30,
  dataset_reader+: { source: $.task.dataset_reader, streams: 32, bptt_steps: null, passage: 1, shuffle_buffer: 100000 },
  train_data_path: $.task.train_data_path,
  validation_data_path: $.task.validation_data_path,
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
}
