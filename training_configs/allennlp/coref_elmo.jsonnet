// Coreference by allennlp-models' coref, on a file in the columns of CoNLL 2012. ELMo reads a document as one
// sentence there.
local common = import '../lib/allennlp.libsonnet';
local paths = import '../lib/paths.libsonnet';
local feature = 20;
local hidden = 100;
local span = common.dim + 4 * hidden + feature;

{
  dataset_reader: {
    type: 'coref',
    token_indexers: common.indexers,
    max_span_width: 10,
    max_sentences: 50,
  },
  train_data_path: paths.fixture('coref/train.conll'),
  validation_data_path: paths.fixture('coref/dev.conll'),
  model: {
    type: 'coref',
    text_field_embedder: common.embedder,
    regularizer: common.regularizer,
    context_layer: common.lstm(common.dim, hidden),
    mention_feedforward: common.feedforward(span, [150, 150], dropout=0.2),
    antecedent_feedforward: common.feedforward(3 * span + feature, [150, 150], dropout=0.2),
    feature_size: feature,
    max_span_width: 10,
    spans_per_word: 0.4,
    max_antecedents: 50,
    lexical_dropout: 0.5,
  },
  data_loader: { batch_size: 1, shuffle: true },
  validation_data_loader: { batch_size: 1 },
  trainer: common.trainer('+coref_f1', 40),
}
