// Parts of speech with ELMo at the input. `elmo.plug` gives the reader its token indexer and the model its `elmo` block.
local elmo = import '../../training_configs/lib/elmo.libsonnet';
local training = import '../../training_configs/lib/training.libsonnet';

training.seeds(13) + {
  dataset_reader: {
    type: 'own_pos',
    token_indexers: { tokens: { type: 'single_id', lowercase_tokens: true } },
  },
  train_data_path: 'examples/own_task/train.txt',
  validation_data_path: 'examples/own_task/dev.txt',
  datasets_for_vocab_creation: ['train'],
  model: {
    type: 'own_pos',
    text_field_embedder: { token_embedders: { tokens: { type: 'embedding', embedding_dim: 20 } } },
    hidden_sizes: [50],
    dropout: 0.2,
  },
  data_loader: training.batches(4),
  validation_data_loader: training.evaluation_batches(16),
  trainer: training.trainer {
    optimizer: { type: 'elmo_adam', lr: 0.003 },
    validation_metric: '+accuracy',
    num_epochs: 15,
  },
} + elmo.plug('input', dropout=0.2, mix_l2=0.001)
