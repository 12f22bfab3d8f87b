"""
Runs over large inputs that can be stopped and resumed: `embed` and `predict`, in this process or on Ray.

| module | subject |
| --- | --- |
| `locations` | files and folders, on a disk or in a store |
| `runs` | an input in shards, the plan of a run and its notes, and what `--resume` and `--force` do |
| `sinks` | outputs: an HDF5 file, JSON Lines, a folder of Parquet files |
| `engines` | where shards are done: in this process, or by workers on Ray |
| `embed`, `predict` | the work on one shard |

Ray and pyarrow are imported where they are used: this process needs neither for files of lines on a disk.
"""
