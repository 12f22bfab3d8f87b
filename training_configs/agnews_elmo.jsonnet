// The classifier with ELMo at the input of its biLSTM and beside its output, before the maximum. The dropouts of the
// classifier are also those of the ELMo vectors.
//
// With a biLM from scratch on the same descriptions (agnews_bilm.jsonnet), give its files as model.elmo.options_file and
// model.elmo.weight_file.
local elmo = import 'lib/elmo.libsonnet';

(import 'agnews.jsonnet') + elmo.plug('input+output')
