// What the configs of AllenNLP's own models with our ELMo have in common: ELMo is a token embedder of theirs.
//
// To use other weights, set options_file and weight_file in `embedder`, or in one run by --overrides at
// model.text_field_embedder.token_embedders.elmo.
local training = import 'training.libsonnet';
local options = import '../../pretrained/english/options.json';

{
  indexers:: { elmo: { type: 'elmo_character_ids' } },
  // Its penalty on the mix weights needs the regularizer below.
  embedder:: { token_embedders: { elmo: { type: 'elmo', dropout: 0.2, mix_l2: 0.001 } } },
  regularizer:: { regexes: [['elmo', { type: 'elmo_mix' }]] },
  // Size of ELMo's vectors.
  dim:: 2 * options.lstm.projection_dim,

  lstm(input, hidden, layers=1):: {
    type: 'lstm',
    input_size: input,
    hidden_size: hidden,
    num_layers: layers,
    bidirectional: true,
  },
  feedforward(input, hidden, activations='relu', dropout=0.0):: {
    input_dim: input,
    num_layers: std.length(hidden),
    hidden_dims: hidden,
    activations: [activations for _ in hidden],
    dropout: dropout,
  },
  trainer(metric, epochs, lr=1e-3):: training.trainer {
    optimizer: { type: 'adam', lr: lr },
    validation_metric: metric,
    num_epochs: epochs,
    patience: 5,
    grad_norm: 5.0,
  },
}
