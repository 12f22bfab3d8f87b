// The classifier with a biLM that reads words; agnews_words_bilm.jsonnet makes one of real data.
local classifier = import 'lib/classifier.libsonnet';

(import 'agnews.jsonnet') + classifier.word_elmo
