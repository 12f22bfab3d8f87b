from elmo_tasks.jobs.engines import LocalEngine
from tests.jobs.stumbling import attempts_before_an_error


def test_the_results_before_an_error(tmp_path):
    assert attempts_before_an_error(LocalEngine(), tmp_path, deaths=0) == [0, 1, 2]
