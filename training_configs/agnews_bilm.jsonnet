// A small biLM from scratch on the text of AG News: the first of two stages.
//
//   allennlp train training_configs/agnews_bilm.jsonnet -s runs/agnews_bilm
//   allennlp elmo export runs/agnews_bilm/model.tar.gz runs/agnews_elmo
//   allennlp train training_configs/agnews_elmo.jsonnet -s runs/agnews --overrides '{
//     "model.elmo.options_file": "runs/agnews_elmo/options.json",
//     "model.elmo.weight_file": "runs/agnews_elmo/weights.hdf5"}'
local pretraining = import 'lib/pretraining.libsonnet';

pretraining.characters + { task:: import 'agnews.jsonnet' }
