// The classifier with ELMo. The biLM that comes with the project has not read Korean: give the biLM of
// klue_tc_bilm.jsonnet.
local classifier = import 'lib/classifier.libsonnet';

(import 'klue_tc.jsonnet') + classifier.elmo
