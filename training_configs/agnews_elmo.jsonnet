// The classifier with ELMo.
//
// With a biLM from scratch on the same descriptions (agnews_bilm.jsonnet), give its files as model.elmo.options_file
// and model.elmo.weight_file.
local classifier = import 'lib/classifier.libsonnet';

(import 'agnews.jsonnet') + classifier.elmo
