// ELMo for every task, in one line:  (import 'ner.jsonnet') + elmo.plug('input', dropout=0.5)
//
// The keys of the block and their defaults are in docs/elmo.md. To use other weights in all
// configs, or to keep the layers of the frozen biLM for all runs, set `weights` here; in one run, use --overrides
// (see docs/weights.md).
local weights = {
  // options_file: '/data/elmo/options.json',
  // weight_file: '/data/elmo/weights.hdf5',
  // vocabulary_file: '/data/elmo/vocabulary.txt',  // of a biLM that reads words
  // activations: '/data/elmo/activations',
};
// The options of `weights`: they say what the biLM reads. For a folder or zip of ELMoForManyLangs
// `{ char_cnn: { encoding: 'unicode' } }`.
local options = import '../../pretrained/english/options.json';

local placements = ['none', 'input', 'output', 'input+output'];
local checked(placement) =
  assert std.member(placements, placement) :
         'placement is "%s", expected one of: %s' % [placement, std.join(', ', placements)];
  placement;

{
  // The `elmo` block of a model.
  block(placement, dropout=0.0, mix_l2=null)::
    assert placement != 'none' || mix_l2 == null : 'found a mix_l2 with placement none, which has no mix; expected null';
    weights {
      placement: checked(placement),
      dropout: dropout,
      mix_l2: mix_l2,
    },
  // The token indexers that the placement needs.
  indexers(placement):: if checked(placement) == 'none' then {} else {
    elmo: {
      type:
        if !std.objectHas(options, 'char_cnn') then 'elmo_word_ids'
        else if std.objectHas(options.char_cnn, 'encoding') then 'elmo_unicode_ids'
        else 'elmo_character_ids',
    },
  },
  // Reader and model together, to be added to a baseline config.
  plug(placement, dropout=0.0, mix_l2=null):: {
    dataset_reader+: { token_indexers+: $.indexers(placement) },
    model+: { elmo: $.block(placement, dropout, mix_l2) },
  },
}
