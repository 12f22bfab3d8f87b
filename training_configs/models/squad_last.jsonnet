// The second part of the training of `squad`, on the same questions, with a rate that falls to a twentieth.
(import 'squad.jsonnet') + {
  trainer+: { learning_rate_scheduler: { type: 'polynomial_decay', warmup_steps: 0, end_learning_rate: 0.05 } },
}
