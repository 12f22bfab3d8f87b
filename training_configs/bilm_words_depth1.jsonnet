// The biLM of bilm_words_depth2.jsonnet with one LSTM layer. `python -m benchmarks word-bilm` compares them.
(import 'bilm_words_depth2.jsonnet') + { model+: { options+: { lstm+: { n_layers: 1 } } } }
