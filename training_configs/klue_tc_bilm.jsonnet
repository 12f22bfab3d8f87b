// A small biLM from scratch on Korean headlines: the first of two stages, as in agnews_bilm.jsonnet. It
// reads the UTF-8 bytes of words or syllables. On other text: petitions_bilm.jsonnet.
local pretraining = import 'lib/pretraining.libsonnet';

pretraining.characters + { task:: import 'klue_tc.jsonnet' }
