// Topics of news, AG News: csv without a header. The description of each record is read; for titles too,
// sentence1: ['title', 'description'].
local classifier = import 'lib/classifier.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

classifier.config + {
  dataset_reader: {
    type: 'elmo_classifier',
    format: 'csv',
    columns: ['class', 'title', 'description'],
    sentence1: 'description',
    label: 'class',
    classes: ['World', 'Sports', 'Business', 'Sci/Tech'],
    label_names: { '1': 'World', '2': 'Sports', '3': 'Business', '4': 'Sci/Tech' },
    tokenizer: { type: 'elmo_spacy', language: 'en' },
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: fixture('classification/agnews/train.csv'),
  validation_data_path: fixture('classification/agnews/dev.csv'),
}
