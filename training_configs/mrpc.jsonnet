// Paraphrase or not, MRPC: tsv with a header, quotes that are text, pairs of sentences.
local classifier = import 'lib/classifier.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

classifier.config + {
  dataset_reader: {
    type: 'elmo_classifier',
    format: 'tsv',
    sentence1: '#1 String',
    sentence2: '#2 String',
    label: 'Quality',
    classes: ['different', 'paraphrase'],
    label_names: { '0': 'different', '1': 'paraphrase' },
    tokenizer: { type: 'elmo_spacy', language: 'en' },
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: fixture('classification/mrpc/train.txt'),
  validation_data_path: fixture('classification/mrpc/dev.txt'),
}
