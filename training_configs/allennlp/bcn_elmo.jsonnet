// Sentiment by allennlp-models' bcn, on the trees of the Stanford Sentiment Treebank. It takes no token
// embedder that is called elmo.
local common = import '../lib/allennlp.libsonnet';
local paths = import '../lib/paths.libsonnet';
local hidden = 100;

{
  dataset_reader: { type: 'sst_tokens', granularity: '5-class', token_indexers: { words: common.indexers.elmo } },
  train_data_path: paths.fixture('sst/train.txt'),
  validation_data_path: paths.fixture('sst/dev.txt'),
  model: {
    type: 'bcn',
    text_field_embedder: { token_embedders: { words: common.embedder.token_embedders.elmo } },
    regularizer: common.regularizer,
    embedding_dropout: 0.25,
    pre_encode_feedforward: common.feedforward(common.dim, [hidden], dropout=0.25),
    encoder: common.lstm(hidden, hidden),
    integrator: common.lstm(6 * hidden, hidden),
    integrator_dropout: 0.1,
    output_layer: {
      input_dim: 8 * hidden,
      num_layers: 3,
      output_dims: [4 * hidden, 2 * hidden, 5],
      pool_sizes: 4,
      dropout: [0.2, 0.3, 0.0],
    },
  },
  data_loader: { batch_sampler: { type: 'bucket', batch_size: 32 } },
  trainer: common.trainer('+accuracy', 20),
}
