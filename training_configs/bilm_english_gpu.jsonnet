// The English biLM that comes with the project trains on, on a GPU: many streams at once, since a GPU takes longer to
// begin a step than to do it, and one file whose passages are in random order (`python -m benchmarks english-mix`),
// so that nothing is read ahead. The rate falls to zero; with T seconds at R tokens/s, `epochs` times `epoch_blocks` is
// T * R / 19,000.
(import 'bilm_english_last.jsonnet') + {
  epochs:: 4,
  epoch_blocks:: 2000,
  dataset_reader+: { streams: 1024, shuffle_buffer: 4096 },
  train_data_path: 'text/english/mixed.txt.gz',
  data_loader+: { num_workers: 1 },
  model+: { precision: 'bfloat16' },
  trainer+: {
    cuda_device: 0,
    optimizer+: { lr: 0.003 },
    learning_rate_scheduler+: { warmup_steps: 300 },
    checkpointer+: { save_every_num_seconds: 60 },
  },
}
