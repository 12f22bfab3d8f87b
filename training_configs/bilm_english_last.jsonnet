// The end of the training of the English biLM that comes with the project: from the weights that bilm_english.jsonnet
// has reached, exported to `first`, with a rate that falls to zero.
(import 'bilm_english.jsonnet') + {
  first:: 'text/english/first',
  epochs:: 10,
  vocabulary+: { words_file: $.first + '/vocab.txt' },
  model: {
    type: 'elmo_bilm',
    options_file: $.first + '/options.json',
    weight_file: $.first + '/weights.safetensors',
    softmax: { type: 'sampled', num_samples: 4096 },
    dropout: 0.0,
  },
  trainer+: { learning_rate_scheduler: { type: 'linear_with_warmup', warmup_steps: 100 } },
}
