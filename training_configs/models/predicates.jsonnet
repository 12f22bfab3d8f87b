// The archive `predicates`: the words that have semantic roles, see models/README.md.
(import 'ner.jsonnet') + { trainer+: { num_epochs: 8, patience: 3 } }
