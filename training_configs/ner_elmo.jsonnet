// The baseline with ELMo at the input, and the paper's strong penalty on the mix weights. The encoder's variational
// dropout also applies to the ELMo vectors: a second one on top lowered the scores.
local elmo = import 'lib/elmo.libsonnet';

(import 'ner.jsonnet') + elmo.plug('input', mix_l2=0.1)
