// The classifier with ELMo, as in agnews_elmo.jsonnet. The biLM that comes with the project knows no Korean: give that of
// klue_tc_bilm.jsonnet.
local elmo = import 'lib/elmo.libsonnet';

(import 'klue_tc.jsonnet') + elmo.plug('input+output')
