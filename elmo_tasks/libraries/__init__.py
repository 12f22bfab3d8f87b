"""ELMo in other libraries: spaCy, scikit-learn, gensim. Each module imports its library, and no other."""
