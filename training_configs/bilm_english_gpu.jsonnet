// The English biLM that comes with the project trains on, on a GPU: from the weights in `first`, with a rate that
// falls to zero. Many streams in a batch, since a GPU takes longer to begin a step than to do it; one file whose passages
// are in random order (`python -m benchmarks english-mix`), so that no text is read ahead; three processes that read.
// On an H100 it reads 85 million tokens in four minutes, 10 blocks a second: `epoch_blocks` follows from the time at hand.
(import 'bilm_english_last.jsonnet') + {
  random_seed: 33, numpy_seed: 33, pytorch_seed: 33,
  epochs:: 1,
  epoch_blocks:: 2400,
  dataset_reader+: { streams: 2048, shuffle_buffer: 4096 },
  train_data_path: 'text/english/mixed.txt.gz',
  data_loader+: { num_workers: 3 },
  // In order and with few streams a GPU takes as long for the texts left out as for the training.
  validation_data_path: null,
  model+: { precision: 'bfloat16' },
  trainer+: {
    cuda_device: 0,
    optimizer+: { lr: 0.004 },
    learning_rate_scheduler+: { warmup_steps: 150 },
    checkpointer+: { save_every_num_seconds: 25 },
    callbacks: [{ type: 'elmo_repeatable' }, { type: 'elmo_progress', every_seconds: 10 }],
  },
}
