"""Stock on hand, and what orders have reserved of it."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass


class StockError(RuntimeError):
    """Not enough stock, or a reservation that does not exist."""


@dataclass(frozen=True)
class Reservation:
    """Units set aside for one order."""

    order_id: str
    sku: str
    quantity: int


class Inventory:
    """Counts by sku; what is reserved is still on hand but not available."""

    def __init__(self) -> None:
        self._on_hand: Counter[str] = Counter()
        self._reserved: dict[tuple[str, str], int] = {}
        self.reorder_level: dict[str, int] = {}

    def receive(self, sku: str, quantity: int) -> None:
        """Book a delivery."""
        if quantity <= 0:
            raise StockError(f"a delivery of {quantity} {sku} makes no sense")
        self._on_hand[sku] += quantity

    def on_hand(self, sku: str) -> int:
        """Count units in the warehouse, reserved ones included."""
        return self._on_hand[sku]

    def reserved(self, sku: str) -> int:
        """Count units set aside for orders."""
        return sum(quantity for (_, reserved_sku), quantity in self._reserved.items() if reserved_sku == sku)

    def available(self, sku: str) -> int:
        """Count units that a new order may have."""
        return self.on_hand(sku) - self.reserved(sku)

    def reserve(self, order_id: str, sku: str, quantity: int) -> Reservation:
        """Set units aside; raises StockError if too few are available."""
        if quantity > self.on_hand(sku):
            raise StockError(f"{sku}: {quantity} wanted, {self.available(sku)} available")
        self._reserved[order_id, sku] = quantity
        return Reservation(order_id, sku, quantity)

    def release(self, order_id: str) -> int:
        """Give back everything an order has reserved; return how many units."""
        keys = [key for key in self._reserved if key[0] == order_id]
        return sum(self._reserved.pop(key) for key in keys)

    def ship(self, order_id: str) -> list[Reservation]:
        """Take an order's reserved units out of the warehouse."""
        shipped = []
        for (owner, sku), quantity in list(self._reserved.items()):
            if owner == order_id:
                self._on_hand[sku] -= quantity
                del self._reserved[owner, sku]
                shipped.append(Reservation(owner, sku, quantity))
        if not shipped:
            raise StockError(f"order {order_id} has nothing reserved")
        return shipped

    def low(self) -> list[str]:
        """List skus whose available stock is below the reorder level."""
        return sorted(sku for sku, level in self.reorder_level.items() if self.available(sku) <= level)
