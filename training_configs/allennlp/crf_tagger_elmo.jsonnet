// NER by allennlp-models' crf_tagger, on files of CoNLL-2003.
local common = import '../lib/allennlp.libsonnet';
local paths = import '../lib/paths.libsonnet';

{
  dataset_reader: { type: 'conll2003', coding_scheme: 'BIOUL', token_indexers: common.indexers },
  train_data_path: paths.fixture('ner/train.conll'),
  validation_data_path: paths.fixture('ner/dev.conll'),
  model: {
    type: 'crf_tagger',
    text_field_embedder: common.embedder,
    regularizer: common.regularizer,
    encoder: common.lstm(common.dim, 100),
    dropout: 0.5,
    label_encoding: 'BIOUL',
    constrain_crf_decoding: true,
    calculate_span_f1: true,
  },
  data_loader: { batch_sampler: { type: 'bucket', batch_size: 16 } },
  trainer: common.trainer('+f1-measure-overall', 30),
}
