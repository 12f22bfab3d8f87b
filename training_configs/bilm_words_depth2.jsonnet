// A biLM that reads words, like bilm_words.jsonnet, from seed 42: two LSTM layers of 512, 30,000 words, frequent
// words left out at random (t = .001), dropout .1.
local training = import 'lib/training.libsonnet';

(import 'bilm_words.jsonnet') + training.seeds(42) + { dataset_reader+: { seed: 42 } }
