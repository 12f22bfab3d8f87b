// The baseline with ELMo at the input and the output of the encoder biLSTM. ELMo's dropout is ours: the supplement's is
// not known to us; with .5 the network learns more slowly, since the projection has its own on top.
//
// ELMo's vectors are long compared with the encoder's: unscaled, as in McCann et al. (2017), nearly all of a word's
// biattention is on the word itself, and the biattention says nothing. So the products are scaled. AllenNLP's public
// config (54.7 on the test set) has ELMo at the input alone, an earlier one of it also after the integrator:
// `elmo.plug('input')` without scaled_attention, and `output_elmo: 'integrator'` without it.
local elmo = import 'lib/elmo.libsonnet';

(import 'sst.jsonnet') + elmo.plug('input+output', dropout=0.2, mix_l2=0.001) + { model+: { scaled_attention: true } }
