"""ELMo in spaCy, scikit-learn and gensim. Each module imports its library and none of the others."""

from elmo_tasks.common.machine import one_thread_in_forks

# `n_process` of spaCy, `n_jobs` of scikit-learn and their like may fork.
one_thread_in_forks()
