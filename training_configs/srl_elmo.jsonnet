// The baseline with ELMo at the input, and a weak penalty on the mix weights.
local elmo = import 'lib/elmo.libsonnet';

(import 'srl.jsonnet') + elmo.plug('input', mix_l2=0.001)
