"""A line in which clients take turns: one sentence each, however many each has. Knows nothing of what they wait for."""

from collections import OrderedDict, deque
from collections.abc import Hashable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")


class FairQueue(Generic[Item]):
    """Items that wait. Whoever comes with one does not stand behind all of somebody else's hundred."""

    def __init__(self) -> None:
        self._turns: OrderedDict[Hashable, deque[Item]] = OrderedDict()
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, owner: Hashable, items: Sequence[Item]) -> None:
        """Behind the owner's others, if there are any; else at the end of the turn."""
        if items:
            self._turns.setdefault(owner, deque()).extend(items)
            self._count += len(items)

    def first(self) -> Item:
        """Whose turn it is."""
        return next(iter(self._turns.values()))[0]

    def take(self) -> Item:
        """The first, whose owner goes to the end."""
        owner, items = self._turns.popitem(last=False)
        item = items.popleft()
        self._count -= 1
        if items:
            self._turns[owner] = items
        return item

    def drop(self, owner: Hashable) -> None:
        """Nobody waits for these any more."""
        self._count -= len(self._turns.pop(owner, ()))
