"""Tables for people."""

from __future__ import annotations

from collections import Counter

from shop.inventory import Inventory
from shop.ledger import Ledger
from shop.money import Money, total
from shop.orders import Order, State


def table(headers: list[str], rows: list[list[str]]) -> str:
    """Draw a table with columns as wide as their longest cell; numbers stand to the right."""
    widths = [len(header) for header in headers]
    for row in rows:
        for place, cell in enumerate(row):
            widths[place] = max(widths[place], len(cell))

    def draw(cells: list[str]) -> str:
        out = []
        for cell, width in zip(cells, widths):
            out.append(cell.rjust(width) if cell[:1].isdigit() else cell.ljust(width))
        return "  ".join(out).rstrip()

    rule = "  ".join("-" * width for width in widths)
    return "\n".join([draw(headers), rule, *map(draw, rows)])


def sales(orders: list[Order]) -> str:
    """Report paid and shipped orders with their net price."""
    rows = []
    for order in orders:
        if order.state in (State.PAID, State.SHIPPED) and order.quoted:
            rows.append([order.order_id, order.customer, order.day.isoformat(), str(order.quoted.net)])
    whole = total([o.quoted.net for o in orders if o.quoted and o.state is State.PAID])
    return table(["order", "customer", "day", "net"], rows) + f"\n\ntotal {whole}"


def best_sellers(orders: list[Order], most: int = 5) -> list[tuple[str, int]]:
    """Count units by product name over all orders that were not cancelled."""
    counts: Counter[str] = Counter()
    for order in orders:
        for line in order.lines:
            counts[line.product.name] += line.quantity
    return counts.most_common(most)


def stock(inventory: Inventory, skus: list[str]) -> str:
    """Report on hand, reserved and available."""
    rows = [[sku, str(inventory.on_hand(sku)), str(inventory.reserved(sku)), str(inventory.available(sku))] for sku in skus]
    return table(["sku", "on hand", "reserved", "available"], rows)


def trial_balance(ledger: Ledger) -> str:
    """Report all accounts; the sum must be zero."""
    balances = ledger.trial_balance()
    rows = [[account, str(amount)] for account, amount in balances.items()]
    check: Money = total(list(balances.values()))
    return table(["account", "balance"], rows) + ("\n\nbalanced" if not check else f"\n\nOFF BY {check}")
