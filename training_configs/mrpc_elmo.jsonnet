// The classifier of pairs with a word-level biLM, of mrpc_bilm.jsonnet: see sst2_elmo.jsonnet.
local sst2 = import 'sst2_elmo.jsonnet';

(import 'mrpc.jsonnet') + {
  dataset_reader+: { token_indexers+: { elmo: sst2.dataset_reader.token_indexers.elmo } },
  model+: { elmo: sst2.model.elmo },
}
