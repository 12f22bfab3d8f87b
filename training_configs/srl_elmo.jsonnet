// The baseline with ELMo at the input, and a weak penalty on the mix weights. ELMo has dropout, as Peters et al. 2018
// advise (section 3.3), since nothing else drops what the LSTM reads; the .1 is from AllenNLP's public config.
local elmo = import 'lib/elmo.libsonnet';

(import 'srl.jsonnet') + elmo.plug('input', dropout=0.1, mix_l2=0.001)
