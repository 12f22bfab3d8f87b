"""`elmo_tasks.drop_in` without the state that AllenNLP carries from batch to batch."""

from elmo_tasks import drop_in

drop_in.install(stateful=False)
