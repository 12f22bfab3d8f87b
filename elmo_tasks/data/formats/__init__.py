"""
Files to records: a module a family of formats, for all tasks.

A reader knows a task, and a format knows files. A format gets the path of one file and yields its records
with their lines; the reader says which of their values it needs. Files, folders, patterns, archives and URLs
are found by `data.input_files.input_files`, and lines of any encoding, packed or not, come from
`data.input_files.read_lines`.

| module | from a path to | of |
| --- | --- | --- |
| `columns` | `ColumnLayout.sentences`: sentences of numbered lines; `row`: cells | CoNLL-2003, CoNLL-2012 |
| `conllu` | `read_conllu`: sentences of numbered rows | Universal Dependencies |
| `delimited` | `read_delimited`: records | csv, tsv |
| `texts` | records of texts and their classes | TREC, fastText, a folder for each class |
| `records` | `read_records`: records; `class_names`: of numbered classes | Parquet, JSON, delimited |

A record is a `data.input_files.Record`: values by name, and the line for errors.
"""
