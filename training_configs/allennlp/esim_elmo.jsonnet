// Textual entailment by allennlp-models' esim, on the JSON Lines of SNLI.
local common = import '../lib/allennlp.libsonnet';
local paths = import '../lib/paths.libsonnet';
local hidden = 100;

{
  dataset_reader: {
    type: 'snli',
    token_indexers: common.indexers,
    tokenizer: { type: 'letters_digits' },
    combine_input_fields: false,
  },
  train_data_path: paths.fixture('snli/train.jsonl'),
  validation_data_path: paths.fixture('snli/dev.jsonl'),
  model: {
    type: 'esim',
    text_field_embedder: common.embedder,
    regularizer: common.regularizer,
    dropout: 0.5,
    encoder: common.lstm(common.dim, hidden),
    matrix_attention: { type: 'dot_product' },
    projection_feedforward: common.feedforward(8 * hidden, [hidden]),
    inference_encoder: common.lstm(hidden, hidden),
    output_feedforward: common.feedforward(8 * hidden, [hidden], dropout=0.5),
    output_logit: common.feedforward(hidden, [3], activations='linear'),
  },
  data_loader: { batch_sampler: { type: 'bucket', batch_size: 32 } },
  trainer: common.trainer('+accuracy', 30, lr=4e-4),
}
