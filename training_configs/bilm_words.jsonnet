// A biLM that reads words, as small systems that are trained from scratch do: 30,000 words, all sizes 512 without a
// projection, 32 streams of 20 tokens, frequent words left out at random. Without projection and clipping PyTorch's own
// LSTM does the work in most blocks, which is faster. Word vectors to begin with, of 512 numbers, are
// `model.input_vectors`.
(import 'bilm.jsonnet') + {
  dataset_reader+: { input: 'words', streams: 32, subsample: 1e-3 },
  vocabulary+: { max_vocab_size: { tokens: 30000 } },
  model+: {
    options: {
      lstm: { cell_clip: 0, proj_clip: 0, use_skip_connections: true, n_layers: 2, dim: 512, projection_dim: 512 },
    },
  },
  trainer+: { optimizer+: { lr: 0.001 } },
}
