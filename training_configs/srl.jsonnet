// The baseline of the ELMo paper for semantic roles (He et al. 2017): 100d word vectors and 100d that mark the
// predicate, eight interleaved highway LSTM layers of 300 with recurrent dropout .1; Adadelta with rho .95, batches
// of 80, gradients clipped at a norm of 1 over all parameters, as in the code of He et al. (AllenNLP's public config
// clips each number at 1). The tag layer starts orthogonal, as in that config; in the code of He et al. it starts
// from normal numbers of deviation .01. The recurrent dropout is, as in AllenNLP, on what a step takes from the one
// before; in the code of He et al. the next layer, too, reads the hidden vector after it. The paper takes the 100d
// GloVe vectors: give text vectors of that size as model.text_field_embedder.token_embedders.tokens.pretrained_file.
local training = import 'lib/training.libsonnet';
local fixture = (import 'lib/paths.libsonnet').fixture;

training.seeds(13) + {
  dataset_reader: {
    type: 'elmo_srl',
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: fixture('srl/train.conll'),
  validation_data_path: fixture('srl/dev.conll'),
  // A word counts once for each predicate of its sentence; those that count once train the vector of unknown words.
  datasets_for_vocab_creation: ['train'],
  vocabulary: { min_count: { tokens: 2 } },
  model: {
    type: 'elmo_srl',
    text_field_embedder: {
      token_embedders: { tokens: { type: 'embedding', embedding_dim: 100 } },
    },
    predicate_dim: 100,
    hidden_size: 300,
    num_layers: 8,
    dropout: 0.1,
    initializer: { regexes: [['^tag_projection\\.weight', { type: 'orthogonal' }]] },
  },
  // The predicates of a sentence stand together, so that ELMo runs once for them.
  data_loader: training.batches(80) + {
    batch_sampler+: { type: 'elmo_grouped_bucket', group: 'sentence' },
  },
  validation_data_loader: training.evaluation_batches(80) + {
    batch_sampler+: { type: 'elmo_grouped_bucket', group: 'sentence' },
  },
  trainer: training.trainer {
    optimizer: { type: 'adadelta', rho: 0.95 },
    grad_norm: 1.0,
    validation_metric: '+f1',
    // He et al. train up to 500 epochs, and stop when the dev score no longer rises. From as little data as the
    // fixture's these settings learn next to nothing: take small batches, Adam and fewer layers there.
    num_epochs: 40,
    patience: 20,
  },
}
