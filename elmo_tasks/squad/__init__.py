"""Reading comprehension: SQuAD, by the model of Clark and Gardner 2017 (Peters et al. 2018, section 4)."""
