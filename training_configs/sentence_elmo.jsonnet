// The baseline with ELMo at the input of the biLSTM, whose dropout applies to the ELMo vectors, too.
local elmo = import 'lib/elmo.libsonnet';

(import 'sentence.jsonnet') + elmo.plug('input')
