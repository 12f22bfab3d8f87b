"""Semantic role labelling: interleaved highway LSTM (He et al. 2017; Peters et al. 2018, section 4)."""
