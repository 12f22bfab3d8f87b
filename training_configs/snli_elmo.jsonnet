// The baseline with ELMo at the input and the output of the first biLSTM, and what the paper adds with it: dropout
// after the attention, and the L2 norm of the matrices, except the embeddings and ELMo. The dropout of the
// model also applies to the ELMo vectors: a second one on top lowered the scores.
local elmo = import 'lib/elmo.libsonnet';

(import 'snli.jsonnet') + elmo.plug('input+output', mix_l2=0.001) + {
  model+: {
    elmo+: { layer_norm: true },
    attention_dropout: 0.5,
    regularizer: {
      regexes: [['^(encoder|projection|composition|hidden|output)\\..*weight', { type: 'l2', alpha: 0.0001 }]],
    },
  },
}
