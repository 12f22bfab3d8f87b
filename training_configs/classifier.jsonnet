// A classifier of texts, with ELMo. A config of your own imports it and sets the keys that differ:
//
//   (import 'training_configs/classifier.jsonnet') + {
//     text:: 'review', label:: 'stars', classes:: ['bad', 'good'],
//     train:: 'data/train.csv', dev:: 'data/dev.csv',
//   }
local classifier = import 'lib/classifier.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

classifier.config + {
  local config = self,
  // Files, folders, patterns, archives or URLs
  train:: fixture('classification/messages/train.csv'),
  dev:: fixture('classification/messages/dev.csv'),
  // The columns of the text and the class; of pairs, also the column of the second text
  text:: 'text',
  text2:: null,
  label:: 'label',
  classes:: ['account', 'delivery', 'payment'],
  // How texts are split into words: a language by its code, 'characters', 'whitespace'
  tokenizer:: 'en',

  dataset_reader: {
    type: 'elmo_classifier',
    sentence1: config.text,
    [if config.text2 != null then 'sentence2']: config.text2,
    label: config.label,
    classes: config.classes,
    tokenizer: config.tokenizer,
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: config.train,
  validation_data_path: config.dev,
} + classifier.elmo
