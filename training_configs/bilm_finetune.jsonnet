// Fine-tuning of a trained biLM on a task's own text, as in the ELMo paper's supplement, A.1: one epoch over all
// of it.
//
// `source` reads the text with the reader of any task; without it, of text files as in bilm.jsonnet. To evaluate
// on a text file:  allennlp evaluate ARCHIVE TEXT --overrides '{"validation_dataset_reader.source": null}'
local training = import 'lib/training.libsonnet';
local paths = import 'lib/paths.libsonnet';

training.seeds(13) + {
  epochs:: 1,
  // The biLM to start from. If its weights have a softmax, `vocab.txt` next to them has its words; if they have none, a
  // new softmax is trained first, for this many more epochs, with the biLM frozen.
  options_file:: paths.pretrained('english/options.json'),
  weight_file:: paths.pretrained('english/weights.safetensors'),
  words_file:: paths.pretrained('english/vocab.txt'),
  // The softmax, if it is in a file of its own.
  softmax_file:: null,
  softmax_epochs:: if $.words_file == null then 1 else 0,

  dataset_reader: { type: 'elmo_bilm', source: { type: 'elmo_ner' }, streams: 16, shuffle_buffer: 1024 },
  validation_dataset_reader: $.dataset_reader { shuffle_buffer: 0, subsample: null, restart: 0 },
  train_data_path: paths.fixture('ner/train.conll'),
  validation_data_path: paths.fixture('ner/dev.conll'),
  datasets_for_vocab_creation: ['train'],
  vocabulary: if $.words_file == null
  then { max_vocab_size: { tokens: 16000 } }
  else { type: 'elmo_words', words_file: $.words_file },
  model: {
    type: 'elmo_bilm',
    options_file: $.options_file,
    weight_file: $.weight_file,
    softmax_file: $.softmax_file,
    softmax: { type: 'full' },
    dropout: 0.1,
  },
  data_loader: training.blocks,
  validation_data_loader: training.blocks,
  trainer: training.trainer {
    callbacks+: [{ type: 'elmo_softmax_first', epochs: $.softmax_epochs }],
    optimizer: { type: 'elmo_adam', lr: 0.0003 },
    grad_norm: 1.0,
    validation_metric: '-perplexity',
    num_epochs: $.softmax_epochs + $.epochs,
  },
}
