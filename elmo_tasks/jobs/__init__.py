"""
Runs over large inputs that can be stopped and resumed: `embed` and `predict`, in this process or on Ray.

| module | subject |
| --- | --- |
| `locations` | files and folders, on a disk or in a store |
| `runs` | an input in shards, the plan of a run and its notes, and what `--resume` and `--force` do |
| `sinks` | outputs: an HDF5 file, JSON Lines, a folder of Parquet files |
| `engines` | where shards are done: in this process, or by workers on Ray |
| `embed`, `predict` | the work on one shard |

A run cuts its input into shards, and writes the result of each to a part, a file that appears when it is
complete, with a note. A run that is resumed compares its input with its plan and does the shards that have no
note. When all are done, the parts become the output.

Ray and pyarrow are imported where they are used: this process needs neither for files of lines on a disk.
"""
