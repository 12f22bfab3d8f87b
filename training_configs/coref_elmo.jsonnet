// The baseline with ELMo at the input, which the biLSTM reads and heads of spans are made of, without a penalty on the
// mix weights. Its dropout of .5 is the lexical one, which applies to all parts of a word vector.
local elmo = import 'lib/elmo.libsonnet';

(import 'coref.jsonnet') + elmo.plug('input') + { model+: { elmo_in_heads: true } }
