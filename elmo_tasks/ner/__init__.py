"""Named entity recognition: biLSTM-CRF (Lample et al. 2016; Peters et al. 2018, section 4)."""
