"""ELMo in spaCy, scikit-learn and gensim. Each module imports its library and none of the others."""

from elmo_tasks.common.machine import limit_forks_to_one_thread

# `n_process` of spaCy, `n_jobs` of scikit-learn and their like may fork.
limit_forks_to_one_thread()
