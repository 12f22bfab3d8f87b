from elmo_tasks.compat.wrapping import wrap


class Stock:
    def double(self, number, *, plus=0):
        """Twice the number."""
        return 2 * number + plus

    def half(self, number):
        return number // 2

    @classmethod
    def name(cls):
        return cls.__name__


class Derived(Stock):
    pass


def test_what_is_around_gets_the_function_and_its_arguments():
    stock = Stock.double
    wrap(Stock, "double", lambda double, self, number, **options: -double(self, number, **options))
    assert Stock().double(2, plus=1) == -5
    assert Derived().double(3) == -6
    assert Stock.double.__wrapped__ is stock
    assert Stock.double.__doc__ == "Twice the number."


def test_class_methods_stay_such():
    wrap(Stock, "name", lambda name, cls: f"{name(cls)}!")
    assert Derived.name() == "Derived!"


def test_a_function_is_wrapped_once():
    for _ in range(2):
        wrap(Stock, "half", lambda half, self, number: half(self, number) + 1)
    assert Stock().half(4) == 3
