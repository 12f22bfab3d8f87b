"""Functions of AllenNLP with something of ours around them."""

import functools
from collections.abc import Callable
from typing import Any


def wrap(owner: Any, name: str, around: Callable[..., Any]) -> None:
    """
    Puts `around` in the place of a function, a method or a class method, once, however often it is asked to.

    # Parameters

    owner : the module or class that has the function.
    name : of the function there.
    around : takes the function itself, and then its arguments.
    """
    stock = vars(owner)[name]
    of_class = isinstance(stock, classmethod)
    function = stock.__func__ if of_class else stock
    if hasattr(function, "__wrapped__"):
        return

    @functools.wraps(function)
    def wrapped(*args: Any, **options: Any) -> Any:
        return around(function, *args, **options)

    setattr(owner, name, classmethod(wrapped) if of_class else wrapped)
