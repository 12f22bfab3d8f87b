// The classifier with a biLM that reads words. sst2_bilm.jsonnet makes one of real data.
local classifier = import 'lib/classifier.libsonnet';

(import 'sst2.jsonnet') + classifier.word_elmo
