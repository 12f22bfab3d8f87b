// A small biLM from scratch that reads words, on the sentences of MRPC: see sst2_bilm.jsonnet.
(import 'sst2_bilm.jsonnet') + { task:: import 'mrpc.jsonnet' }
