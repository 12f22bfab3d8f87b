// The archive `topics`: the topic of a news description, see models/README.md. Its input is ELMo, and the words.
(import '../agnews_elmo.jsonnet') + {
  vocabulary: { min_count: { tokens: 5 } },
  trainer+: {
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    moving_average: { type: 'exponential', decay: 0.99 },
    num_epochs: 10,
  },
}
