// A biLM and its softmax from official files: nothing is trained, and the archive gives the perplexity of
// texts (`allennlp evaluate`) and the log probability of each word (`allennlp predict`).
//
// Weights that were published without their softmax have it in a file of its own, `softmax_file`.
local paths = import 'lib/paths.libsonnet';

(import 'bilm_finetune.jsonnet') + {
  dataset_reader+: { source: null },
  train_data_path: paths.fixture('language_model/train.txt'),
  validation_data_path: paths.fixture('language_model/dev.txt'),
  trainer: { type: 'no_op' },
}
