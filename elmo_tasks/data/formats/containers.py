"""What a file looks like, for the refusal of data that no reader takes."""

from elmo_tasks.data.formats.profile import read_table
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import shorten


def container(sample: Sample) -> str:
    """Returns a noun phrase for what holds the records of a sample."""
    if sample.has_records:
        name = "Parquet" if sample.is_parquet else "JSON"
        if not sample.first_values:
            return f"{name} without an object for each record"
        return f"{name} with the keys {shorten(', '.join(sample.first_values), 200)}"
    if not sample.lines:
        return "a file without lines of text"
    if table := read_table(sample):
        return f"a table with the columns {shorten(', '.join(table.columns), 200)}"
    if sample.has_blank_lines:
        return f"lines in columns, such as {shorten(sample.first_row)!r}, with empty lines between"
    return f"lines of text, such as {shorten(sample.first_row)!r}"
