// A small biLM from scratch on Korean petitions, split into syllables: the first of two stages for KLUE-TC. It reads
// the UTF-8 bytes of syllables, and reports the loss of each epoch, perplexity and accuracy.
//
// A petition is raw text, one document a file, in a folder with any folders in it. Of JSON Lines, a petition a line:
//
//   --overrides '{"dataset_reader.source.format": "jsonl", "dataset_reader.source.sentence1": ["title", "content"], ...}'
//
// and the same of validation_dataset_reader. The second stage splits headlines in the same way:
//
//   allennlp train training_configs/petitions_bilm.jsonnet -s runs/petitions_bilm
//   allennlp elmo export runs/petitions_bilm/model.tar.gz runs/petitions_elmo
//   allennlp train training_configs/klue_tc_elmo.jsonnet -s runs/klue_tc --overrides '{
//     "dataset_reader.tokenizer": "elmo_syllables",
//     "model.elmo.options_file": "runs/petitions_elmo/options.json",
//     "model.elmo.weight_file": "runs/petitions_elmo/weights.hdf5"}'
local fixture = (import 'lib/paths.libsonnet').fixture;
local pretraining = import 'lib/pretraining.libsonnet';

pretraining.characters + {
  task:: (import 'klue_tc.jsonnet') + {
    dataset_reader+: { format: 'document', sentence1: 'text', label: null, tokenizer: 'elmo_syllables' },
    train_data_path: fixture('classification/petitions/train'),
    validation_data_path: fixture('classification/petitions/dev'),
  },
  // A petition is long: what is longer than 400 syllables is cut, and 50 of them are a step of training.
  dataset_reader+: { max_sentence: 400, bptt_steps: 50 },
}
