"""Sentiment of sentences, SST-5: biattentive classification network (Peters et al. 2018, section 4)."""
