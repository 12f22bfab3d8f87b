// The baseline with ELMo at the input and the output of the shared biGRU; no layer norm, no penalty on the mix weights.
// The model's variational dropout is also that of the ELMo vectors.
local elmo = import 'lib/elmo.libsonnet';

(import 'squad.jsonnet') + elmo.plug('input+output')
