// Sentiment of sentences, SST-2: tsv with a header, sentences that are split into words already.
local classifier = import 'lib/classifier.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

classifier.config + {
  dataset_reader: {
    type: 'elmo_classifier',
    format: 'tsv',
    sentence1: 'sentence',
    label: 'label',
    classes: ['negative', 'positive'],
    label_names: { '0': 'negative', '1': 'positive' },
    tokenizer: { type: 'whitespace' },
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: fixture('classification/sst2/train.tsv'),
  validation_data_path: fixture('classification/sst2/dev.tsv'),
}
