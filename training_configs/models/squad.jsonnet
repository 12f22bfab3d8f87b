// The archive `squad`: answers to questions about a passage, see models/README.md. Its input is ELMo, and the characters.
local base = import '../squad_elmo.jsonnet';
local embedders = base.model.text_field_embedder.token_embedders;
local indexers = base.dataset_reader.token_indexers;

base {
  dataset_reader+: { token_indexers: { token_characters: indexers.token_characters, elmo: indexers.elmo } },
  vocabulary: {},
  model+: { text_field_embedder: { token_embedders: { token_characters: embedders.token_characters } } },
  data_loader+: { batch_sampler+: { batch_size: 15 } },
  trainer+: { num_epochs: 5 },
}
