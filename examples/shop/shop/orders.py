"""Orders and their states."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import date
from enum import Enum

from shop.catalog import Catalog
from shop.inventory import Inventory
from shop.ledger import Ledger
from shop.pricing import Line, Quote, Rule, quote


class OrderError(RuntimeError):
    """A step that an order in its state cannot take."""


class State(Enum):
    """Where an order stands."""

    DRAFT = "draft"
    PLACED = "placed"
    PAID = "paid"
    SHIPPED = "shipped"
    CANCELLED = "cancelled"


_STEPS = {
    State.DRAFT: {State.PLACED, State.CANCELLED},
    State.PLACED: {State.PAID, State.CANCELLED},
    State.PAID: {State.SHIPPED},
    State.SHIPPED: set(),
    State.CANCELLED: set(),
}


@dataclass
class Order:
    """One customer's order."""

    order_id: str
    customer: str
    day: date
    lines: list[Line] = field(default_factory=list)
    state: State = State.DRAFT
    quoted: Quote | None = None

    def move(self, to: State) -> None:
        """Change the state; raises OrderError for a step that is not allowed."""
        if to not in _STEPS[self.state]:
            raise OrderError(f"order {self.order_id} is {self.state.value}; it cannot become {to.value}")
        self.state = to


class OrderBook:
    """Takes orders through their states, keeping stock and ledger in step."""

    def __init__(self, catalog: Catalog, inventory: Inventory, ledger: Ledger, rules: Sequence[Rule] = ()) -> None:
        self.catalog = catalog
        self.inventory = inventory
        self.ledger = ledger
        self.rules = list(rules)
        self.orders: dict[str, Order] = {}

    def draft(self, customer: str, day: date) -> Order:
        """Open an order."""
        order = Order(order_id=f"A{len(self.orders) + 1:05d}", customer=customer, day=day)
        self.orders[order.order_id] = order
        return order

    def add(self, order: Order, sku: str, quantity: int = 1) -> None:
        """Add a line to a draft; the same sku again raises the quantity."""
        if order.state is not State.DRAFT:
            raise OrderError(f"order {order.order_id} is {order.state.value}; lines are fixed")
        product = self.catalog.get(sku)
        for place, line in enumerate(order.lines):
            if line.product.sku == sku:
                order.lines[place] = Line(product, quantity)
                return
        order.lines.append(Line(product, quantity))

    def place(self, order: Order) -> Quote:
        """Fix the price and reserve the stock; nothing is reserved if one line cannot be."""
        if not order.lines:
            raise OrderError(f"order {order.order_id} is empty")
        for line in order.lines:
            self.inventory.reserve(order.order_id, line.product.sku, line.quantity)
        order.quoted = quote(order.lines, self.rules, order.day)
        order.move(State.PLACED)
        return order.quoted

    def pay(self, order: Order) -> None:
        """Book the payment."""
        order.move(State.PAID)
        assert order.quoted is not None
        self.ledger.book(order.day, f"payment {order.order_id}", "bank", "sales", order.quoted.net - order.quoted.tax)
        self.ledger.book(order.day, f"tax {order.order_id}", "bank", "tax", order.quoted.tax)

    def ship(self, order: Order) -> None:
        """Send the goods."""
        order.move(State.SHIPPED)
        self.inventory.ship(order.order_id)

    def cancel(self, order: Order) -> None:
        """Give the stock back."""
        order.move(State.CANCELLED)
        self.inventory.release(order.order_id)
