// The archive `predicates`: the words that have semantic roles, see models/README.md.
(import 'ner.jsonnet') + {
  data_loader+: { batch_sampler+: { batch_size: 16 } },
  trainer+: { optimizer+: { lr: 0.001 }, learning_rate_scheduler:: null, num_epochs: 8, patience: 3 },
}
