"""Fair queue: round-robin over clients, first in first out within one. Knows nothing about the items."""

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Fair queue: round-robin over owners (clients), first in first out within one.

    An owner with one item does not wait behind all of another owner's hundred.
    """

    def __init__(self) -> None:
        self._by_owner: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, owner: Hashable, items: Sequence[Item]) -> None:
        """Append items to an owner's (client's) queue; a new owner joins at the end of the round."""
        if items:
            self._by_owner.setdefault(owner, deque()).extend(items)
            self._count += len(items)

    def first(self) -> Item:
        """The item that `take` would return, without removing it."""
        return next(iter(self._by_owner.values()))[0]

    def take(self) -> Item:
        """Remove and return the first item; its owner moves to the end of the round."""
        owner, items = self._by_owner.popitem(last=False)
        item = items.popleft()
        self._count -= 1
        if items:
            self._by_owner[owner] = items
        return item

    def drop(self, owner: Hashable) -> None:
        """Remove all items of an owner."""
        self._count -= len(self._by_owner.pop(owner, ()))
