// What all runs share: batches of sentences of similar length, and a run that can be killed, resumed and repeated.
{
  batches(size):: { batch_sampler: { type: 'elmo_bucket', batch_size: size } },
  // Evaluation needs no random order.
  evaluation_batches(size):: {
    batch_sampler: { type: 'elmo_bucket', batch_size: size, shuffle: false },
  },
  // A block of text is a batch, and is made when it is wanted.
  blocks:: { batch_size: 1, max_instances_in_memory: 1, quiet: true },
  trainer:: {
    checkpointer: { type: 'elmo_safe' },
    callbacks: [{ type: 'elmo_repeatable' }, { type: 'elmo_share_cores' }],
  },
  // Callbacks of a long run over text: a line on the progress now and then, and curves in the run's folder `log`, for
  // TensorBoard.
  tracking:: [
    { type: 'elmo_progress', every_seconds: 30 },
    { type: 'tensorboard', summary_interval: 100, should_log_learning_rate: true },
  ],
  seeds(seed):: { random_seed: seed, numpy_seed: seed, pytorch_seed: seed },
}
