// A biLM from text, as in the ELMo paper, section 3: half of the cells of the published small one, a character CNN of
// 512 filters, one highway layer. Adam in place of the original's Adagrad, and a rate that falls to zero.
//
// Text is one tokenised sentence a line, an empty line between documents: a file, a folder, a pattern, or a list of
// these, plain or gzip. An epoch is `epoch_blocks` blocks of 64 streams of 20 tokens, of which the text may have fewer
// or more: the next epoch continues from there.
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

training.seeds(13) + {
  epochs:: 10,
  epoch_blocks:: 10,
  dataset_reader: { type: 'elmo_bilm', streams: 64, bptt_steps: 20, passage: 64, shuffle_buffer: 1024 },
  // In order and whole, so that the perplexity depends on the text alone: it depends on `passage`, not on `streams`.
  validation_dataset_reader: $.dataset_reader { shuffle_buffer: 0, subsample: null, restart: 0 },
  train_data_path: fixture('language_model/train.txt'),
  validation_data_path: fixture('language_model/dev.txt'),
  datasets_for_vocab_creation: ['train'],
  vocabulary: { max_vocab_size: { tokens: 16000 } },
  model: {
    type: 'elmo_bilm',
    // In the layout of the official options.json.
    options: {
      lstm: {
        cell_clip: 3,
        proj_clip: 3,
        use_skip_connections: true,
        n_layers: 2,
        dim: 512,
        projection_dim: 128,
      },
      char_cnn: {
        embedding: { dim: 16 },
        filters: [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256]],
        n_highway: 1,
        n_characters: 262,
        max_characters_per_token: 50,
        activation: 'relu',
      },
    },
    softmax: { type: 'full' },
    dropout: 0.1,
  },
  data_loader: training.blocks { batches_per_epoch: $.epoch_blocks },
  validation_data_loader: training.blocks,
  trainer: training.trainer {
    optimizer: { type: 'elmo_adam', lr: 0.002 },
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    grad_norm: 1.0,
    validation_metric: '-perplexity',
    num_epochs: $.epochs,
    callbacks+: training.tracking,
  },
}
