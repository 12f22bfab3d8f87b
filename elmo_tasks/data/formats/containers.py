"""What a file looks like, for the refusal of data that no reader takes."""

from elmo_tasks.data.formats.profile import num_words, read_table
from elmo_tasks.data.formats.sample import Sample
from elmo_tasks.data.input_files import InputError, shorten

_LONG_NAME = 2
"""The words of a key, at most, that is no text."""


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


def problem_of_json(sample: Sample) -> InputError | None:
    """Returns the error of JSON whose objects hold columns or lists of records, with what to do."""
    names, values = shorten(", ".join(sample.first_values), 200), list(sample.first_values.values())
    is_one = len(sample.records) == 1
    what, remedy = "", 'write {"text": "...", "label": "..."} a line'
    if not sample.is_json or not values:
        return None
    if is_one and all(isinstance(value, dict) and value.keys() == values[0].keys() for value in values):
        what, remedy = (
            f"an object for each column, {names}",
            f"{remedy}: to_json(orient='records', lines=True)",
        )
    elif is_one and all(isinstance(each, list) and all(isinstance(x, str) for x in each) for each in values):
        what = f"a list of texts for each of {names}"
    elif is_one and 2 * sum(num_words(name) > _LONG_NAME for name in sample.first_values) > len(values):
        what = f"texts as keys, {names}"
    elif any(
        isinstance(each, list) and each and isinstance(each[0], dict | list) for each in values
    ) and not any(isinstance(each, str) and num_words(each) > _LONG_NAME for each in values):
        what = f"lists in the keys {names}"
        remedy += " for each item" + ", those of train in a file of their own" * is_one
    return InputError(f"this is JSON with {what}", where=sample.files[0], remedy=remedy) if what else None
