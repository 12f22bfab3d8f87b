// The baseline with two mixes of ELMo's layers beside the word vectors. The model's dropout applies to all.
local elmo = import 'lib/elmo.libsonnet';

(import 'sentence.jsonnet') + elmo.plug('input+output')
