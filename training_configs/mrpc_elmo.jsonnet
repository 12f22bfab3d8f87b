// The classifier of pairs with a biLM that reads words. mrpc_bilm.jsonnet makes one of real data.
local classifier = import 'lib/classifier.libsonnet';

(import 'mrpc.jsonnet') + classifier.word_elmo
