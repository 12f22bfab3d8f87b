"""What two or more tasks share; knows no task."""
