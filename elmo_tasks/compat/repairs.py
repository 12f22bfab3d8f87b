def repair() -> None:
    pass
