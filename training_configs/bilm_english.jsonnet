// The English biLM that comes with the project: `python -m benchmarks english-text DATA text/english` makes its text
// (see pretrained/english/README.md). The rate is constant, so that a run can continue for as long as there is time;
// `bilm_english_last.jsonnet` ends it with a rate that falls to zero. With AVX512_BF16 or AMX,
// --overrides '{"model.precision": "bfloat16"}' is 1.4 times as fast.
local text(name) = 'text/english/%s.txt.gz' % name;
// How many times each corpus is read in a round; benchmarks/english.py counts the vocabulary with the same
// weights.
local weights = {
  wikipedia: 1, litbank: 1, wikinews: 2, gmb_voa: 3, un_debates: 1, us_gov_web: 1,
  stackexchange: 2, tatoeba: 4, snli: 3, squad: 3, ewt: 6, ontogum: 6,
};
local in_order = { shuffle_buffer: 0, restart: 0 };

(import 'bilm.jsonnet') + {
  epochs:: 100,
  epoch_blocks:: 2000,
  // One sentence in four starts from zeros, as every sentence does in a task; the others continue in their document.
  dataset_reader+: { streams: 128, passage: 64, restart: 0.25, shuffle_buffer: 524288 },
  validation_dataset_reader+: in_order,
  train_data_path: std.flattenArrays([std.repeat([text(name)], weights[name]) for name in std.objectFields(weights)]),
  validation_data_path: [text('valid-' + name) for name in std.objectFields(weights)],
  vocabulary: { type: 'elmo_words', words_file: 'text/english/vocab.txt' },
  model+: {
    options+: { lstm+: { dim: 1024 }, char_cnn+: { n_highway: 1 } },
    softmax: { type: 'sampled', num_samples: 4096 },
    dropout: 0.0,
  },
  trainer+: {
    optimizer+: { lr: 0.0015 },
    // A decay to where it starts from: AllenNLP's `constant_with_warmup` counts epochs, not batches.
    learning_rate_scheduler: { type: 'polynomial_decay', warmup_steps: 500, end_learning_rate: $.trainer.optimizer.lr },
    checkpointer+: { save_every_num_seconds: 600, keep_most_recent_by_count: 2 },
    callbacks+: [{
      type: 'elmo_text_perplexities',
      texts: { [name]: text('valid-' + name) for name in std.objectFields(weights) },
      reader: $.dataset_reader + in_order,
    }],
  },
}
