// The second part of the training of the English biLM that comes with the project: from the first part
// (bilm_english.jsonnet, exported to `first`), with a rate that falls to zero, on a mix of which half is novels. Every
// fourth sentence starts from zeros, as every sentence does in a task.
local text(names) = ['text/english/%s.txt.gz' % name for name in names];
local others = ['snli', 'squad', 'squad', 'ewt', 'ewt', 'ontogum', 'ontogum'];

(import 'bilm_english.jsonnet') + {
  first:: 'text/english/first',
  epochs:: 7,
  dataset_reader+: { passage: 4, shuffle_buffer: 524288 },
  train_data_path: text(['litbank'] + std.repeat(others, 8)),
  vocabulary: { type: 'elmo_words', words_file: $.first + '/vocab.txt' },
  model: {
    type: 'elmo_bilm',
    options_file: $.first + '/options.json',
    weight_file: $.first + '/weights.hdf5',
    softmax: { type: 'sampled', num_samples: 2048 },
    dropout: 0.05,
  },
  trainer+: { optimizer+: { lr: 0.0013 }, learning_rate_scheduler+: { warmup_steps: 100 } },
}
