# Classes of the script's own: dataclasses, type hints, pickling, source.
# expect stdout: Item(name='desk', price=100.0)
# expect stdout: {'name': <class 'str'>, 'price': <class 'float'>}
# expect stdout: def cheap(item):
# expect result: True
import inspect
import pickle
import typing
from dataclasses import dataclass


@dataclass
class Item:
    name: str
    price: float


def cheap(item):
    return item.price < 200


item = pickle.loads(pickle.dumps(Item("desk", 100.0)))
print(item)
print(typing.get_type_hints(Item))
print(inspect.getsource(cheap).splitlines()[0])
item == Item("desk", 100.0)
