// A small biLM from scratch that reads words, on the sentences of SST-2: the first of two stages.
//
//   allennlp train training_configs/sst2_bilm.jsonnet -s runs/sst2_bilm
//   allennlp elmo export runs/sst2_bilm/model.tar.gz runs/sst2_elmo
//   allennlp train training_configs/sst2_elmo.jsonnet -s runs/sst2 --overrides '{
//     "model.elmo.options_file": "runs/sst2_elmo/options.json",
//     "model.elmo.weight_file": "runs/sst2_elmo/weights.hdf5",
//     "model.elmo.vocabulary_file": "runs/sst2_elmo/vocab.txt"}'
local pretraining = import 'lib/pretraining.libsonnet';

pretraining.words + { task:: import 'sst2.jsonnet' }
