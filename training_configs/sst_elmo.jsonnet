// The baseline with ELMo at the input and the output of the encoder biLSTM. ELMo's dropout is ours: the supplement's is
// not known to us; with .5 the network learns more slowly, since the projection has its own on top.
local elmo = import 'lib/elmo.libsonnet';

(import 'sst.jsonnet') + elmo.plug('input+output', dropout=0.2, mix_l2=0.001)
