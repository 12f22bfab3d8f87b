// The baseline with ELMo at the input and the output of the shared biGRU; no layer norm, no penalty on the mix weights.
// The model's variational dropout also applies to the ELMo vectors.
local elmo = import 'lib/elmo.libsonnet';

(import 'squad.jsonnet') + elmo.plug('input+output') + {
  // Not in the paper: at the input ELMo starts with a tenth of its length. With all of it the attention learns first
  // which words of a question count, the same ones for each word of the passage, and only much later what belongs
  // together.
  model+: { initializer: { regexes: [['^elmo\\.mixes\\.input\\.gamma$', { type: 'constant', val: 0.1 }]] } },
}
