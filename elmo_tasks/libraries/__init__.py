"""ELMo in spaCy, scikit-learn and gensim. Each module imports its library and none of the others."""
