// The baseline with ELMo at the input, and the paper's strong penalty on the mix weights.
local elmo = import 'lib/elmo.libsonnet';

(import 'ner.jsonnet') + elmo.plug('input', dropout=0.5, mix_l2=0.1)
