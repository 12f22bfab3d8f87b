// The English biLM that comes with the project: `python benchmarks/english_text.py DATA text/english` makes its text
// (see elmo_tasks/pretrained/english/README.md). Novels are nine tenths of that text; the others are read several times
// in a round.
local text(names) = ['text/english/%s.txt.gz' % name for name in names];

(import 'bilm.jsonnet') + {
  epochs:: 24,
  epoch_blocks:: 1000,
  dataset_reader+: { passage: 32, shuffle_buffer: 32768 },
  validation_dataset_reader+: { passage: 64 },
  train_data_path: text(['litbank', 'snli'] + std.repeat(['squad'], 3) + std.repeat(['ewt', 'ontogum'], 4)),
  validation_data_path: text(['valid']),
  model+: { softmax: { type: 'sampled', num_samples: 2048 }, dropout: 0.0 },
}
