// The classifier with a word-level biLM, as in agnews_elmo.jsonnet. The one of the fixtures is tiny, and shows only that
// all works: sst2_bilm.jsonnet makes one of real data.
local elmo = import 'lib/elmo.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

(import 'sst2.jsonnet') + elmo.plug('input+output') + {
  dataset_reader+: { token_indexers+: { elmo: { type: 'elmo_word_ids' } } },
  model+: {
    elmo+: {
      options_file: fixture('classification/elmo_words/options.json'),
      weight_file: fixture('classification/elmo_words/weights.hdf5'),
      vocabulary_file: fixture('classification/elmo_words/vocab.txt'),
    },
  },
}
