// Question answering by allennlp-models' bidaf, on the JSON of SQuAD 1.1.
local common = import '../lib/allennlp.libsonnet';
local paths = import '../lib/paths.libsonnet';
local hidden = 100;

{
  dataset_reader: {
    type: 'squad1',
    token_indexers: common.indexers,
    tokenizer: { type: 'letters_digits' },
  },
  train_data_path: paths.fixture('squad/train.json'),
  validation_data_path: paths.fixture('squad/dev.json'),
  model: {
    type: 'bidaf',
    text_field_embedder: common.embedder,
    regularizer: common.regularizer,
    num_highway_layers: 2,
    phrase_layer: common.lstm(common.dim, hidden),
    matrix_attention: {
      type: 'linear',
      combination: 'x,y,x*y',
      tensor_1_dim: 2 * hidden,
      tensor_2_dim: 2 * hidden,
    },
    modeling_layer: common.lstm(8 * hidden, hidden, layers=2),
    span_end_encoder: common.lstm(14 * hidden, hidden),
    dropout: 0.2,
  },
  data_loader: { batch_sampler: { type: 'bucket', batch_size: 16 } },
  trainer: common.trainer('+em', 20),
}
