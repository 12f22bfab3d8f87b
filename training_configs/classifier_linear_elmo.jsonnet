// A linear classifier of texts, for some hundreds or thousands of them: logistic regression on ELMo's vectors and on
// n-grams. A config of your own imports it and sets the keys that differ, as with classifier.jsonnet.
local elmo = import 'lib/elmo.libsonnet';
local training = import 'lib/training.libsonnet';

(import 'classifier.jsonnet') + {
  dataset_reader+: { token_indexers: {} },
  vocabulary:: null,
  model: {
    type: 'elmo_linear',
    text_field_embedder: { token_embedders: {} },
    pairs: $.text2 != null,
  },
  data_loader: training.evaluation_batches(64) + { batch_sampler+: { sorting_keys: ['metadata'] } },
  // class_weight: 'balanced' gives all classes the same weight
  trainer: { type: 'elmo_linear' },
} + elmo.plug('input')
