// Semantic roles by allennlp-models' srl, on folders of *.gold_conll files in the columns of CoNLL 2012: set both
// paths by --overrides.
local common = import '../lib/allennlp.libsonnet';
local predicate_dim = 100;

{
  dataset_reader: { type: 'srl', token_indexers: common.indexers },
  train_data_path: 'srl/train',
  validation_data_path: 'srl/dev',
  model: {
    type: 'srl',
    text_field_embedder: common.embedder,
    regularizer: common.regularizer,
    binary_feature_dim: predicate_dim,
    encoder: {
      type: 'alternating_lstm',
      input_size: common.dim + predicate_dim,
      hidden_size: 300,
      num_layers: 8,
      recurrent_dropout_probability: 0.1,
      use_input_projection_bias: false,
    },
  },
  data_loader: { batch_sampler: { type: 'bucket', batch_size: 32, sorting_keys: ['tokens'] } },
  trainer: common.trainer('+f1-measure-overall', 50),
}
