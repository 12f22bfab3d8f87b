// A biLM of two LSTM layers on the text of AG News, whose words start from Word2Vec: the first of two stages.
// Which of the 20 most frequent words are taken for which is counted, too: accuracy, precision, recall, F1 and
// confusion matrix.
//
// With real data, `input_vectors` holds vectors of the words of the training text. TEXT is that text, one tokenised sentence
// a line, and --dim is the biLM's `projection_dim`:
//
//   allennlp elmo vectors word2vec TEXT runs/word2vec.txt.gz --dim 128
//   allennlp train training_configs/agnews_words_bilm.jsonnet -s runs/agnews_words_bilm --overrides '{
//     "train_data_path": "data/ag_news/train.csv", "validation_data_path": "data/ag_news/dev.csv",
//     "model.input_vectors": "runs/word2vec.txt.gz"}'
//   allennlp elmo confusion runs/agnews_words_bilm/model.tar.gz data/ag_news/dev.csv runs/confusion.png
//
// `python -m benchmarks ag-news` does all of it, and varies the sizes.
local fixture = (import 'lib/paths.libsonnet').fixture;
local pretraining = import 'lib/pretraining.libsonnet';

pretraining.words + {
  task:: import 'agnews.jsonnet',
  model+: { input_vectors: fixture('classification/agnews/word2vec.txt.gz'), frequent_words: 20 },
}
