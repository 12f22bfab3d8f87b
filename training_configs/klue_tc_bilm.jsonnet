// A small biLM from scratch on Korean headlines; it reads the UTF-8 bytes of words or syllables. See agnews_bilm.jsonnet.
//
// On other text, one paragraph a line, such as petitions:
//   --overrides '{"dataset_reader.source.format": "text", "dataset_reader.source.sentence1": "text",
//     "dataset_reader.source.label": null, "train_data_path": "data/petitions.txt",
//     "validation_dataset_reader...": the same, "validation_data_path": "data/petitions_dev.txt"}'
(import 'agnews_bilm.jsonnet') + { task:: import 'klue_tc.jsonnet' }
