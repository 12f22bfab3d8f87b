// The archive `sentiment`: negative, neutral or positive, in several kinds of text. Its input is ELMo, and the words.
// The data is given by `python -m benchmarks zoo`.
local classifier = import '../lib/classifier.libsonnet';

classifier.config + {
  dataset_reader: {
    type: 'elmo_classifier',
    format: 'tsv',
    sentence1: 'sentence',
    label: 'label',
    classes: ['negative', 'neutral', 'positive'],
    tokenizer: { type: 'elmo_spacy', language: 'en' },
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  vocabulary: { min_count: { tokens: 5 } },
  train_data_path: null,
  validation_data_path: null,
  data_loader+: { batch_sampler+: { batch_size: 64 } },
  trainer+: {
    learning_rate_scheduler: { type: 'elmo_linear_with_warmup', warmup: 0.05 },
    num_epochs: 4,
  },
} + classifier.elmo
