// Topics of Korean headlines, KLUE-TC (YNAT): json.
//
// The tokenizer is a choice: words, or syllables with `tokenizer: 'elmo_syllables'`. klue_tc_bilm.jsonnet takes the
// reader from here, so that pre-training and classification always agree. With --overrides, each reader is given it:
// here `dataset_reader.tokenizer`, in klue_tc_bilm.jsonnet `dataset_reader.source.tokenizer` and
// `validation_dataset_reader.source.tokenizer`.
local classifier = import 'lib/classifier.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

classifier.config + {
  dataset_reader: {
    type: 'elmo_classifier',
    format: 'json',
    sentence1: 'title',
    label: 'label',
    classes: ['IT과학', '경제', '사회', '생활문화', '세계', '스포츠', '정치'],
    tokenizer: { type: 'elmo_spacy', language: 'xx' },
    token_indexers: { tokens: { type: 'single_id' } },
  },
  train_data_path: fixture('classification/klue_tc/train.json'),
  validation_data_path: fixture('classification/klue_tc/dev.json'),
}
