// The archive `ner`: persons, organizations and places, see models/README.md. Its input is ELMo, and the characters.
local base = import '../ner_elmo.jsonnet';
local embedders = base.model.text_field_embedder.token_embedders;
local indexers = base.dataset_reader.token_indexers;

base {
  dataset_reader+: {
    columns: ['word', 'tag'],
    case_vocabulary: 'pretrained/english/vocab.txt',
    token_indexers: { token_characters: indexers.token_characters, elmo: indexers.elmo },
  },
  vocabulary: {},
  model+: {
    text_field_embedder: { token_embedders: { token_characters: embedders.token_characters } },
    hidden_sizes: [128, 128],
  },
  data_loader+: { batch_sampler+: { batch_size: 16 } },
  trainer+: { num_epochs: 25, patience: 6 },
}
