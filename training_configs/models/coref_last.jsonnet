// The second part of the training of `coref`, on OntoGUM alone, whose guidelines differ from LitBank's.
(import 'coref.jsonnet') + { trainer+: { optimizer+: { lr: 0.0008 }, num_epochs: 12 } }
