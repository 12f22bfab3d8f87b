// A small biLM from scratch on Korean headlines: the first of two stages, as in agnews_bilm.jsonnet. It
// reads the UTF-8 bytes of words or syllables.
//
// On other text, such as petitions, one a line, split by the same tokenizer:
//
//   (import 'klue_tc_bilm.jsonnet') + {
//     task+:: {
//       dataset_reader+: { format: 'text', sentence1: 'text', label: null },
//       train_data_path: 'data/petitions.txt',
//       validation_data_path: 'data/petitions_dev.txt',
//     },
//   }
local pretraining = import 'lib/pretraining.libsonnet';

pretraining.characters + { task:: import 'klue_tc.jsonnet' }
