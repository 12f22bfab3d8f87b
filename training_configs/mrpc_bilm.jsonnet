// A small biLM from scratch that reads words, on the sentences of MRPC: the first of two stages, as in
// sst2_bilm.jsonnet.
local pretraining = import 'lib/pretraining.libsonnet';

pretraining.words + { task:: import 'mrpc.jsonnet' }
