"""Orders and stock as JSON files."""

from __future__ import annotations

import json
from datetime import date
from pathlib import Path
from typing import Any

from shop.catalog import Catalog
from shop.orders import Order, State
from shop.pricing import Line

FORMAT = 2


class StorageError(ValueError):
    """A file that was not written by us, or by a newer version."""


def order_to_dict(order: Order) -> dict[str, Any]:
    """Give an order as plain values."""
    return {
        "id": order.order_id,
        "customer": order.customer,
        "day": order.day.isoformat(),
        "state": order.state.value,
        "lines": [{"sku": line.product.sku, "quantity": line.quantity} for line in order.lines],
    }


def order_from_dict(data: dict[str, Any], catalog: Catalog) -> Order:
    """Build an order from plain values; products come from the catalogue."""
    return Order(
        order_id=data["id"],
        customer=data["customer"],
        day=date.fromisoformat(data["day"]),
        lines=[Line(catalog.get(line["sku"]), int(line["quantity"])) for line in data["lines"]],
        state=State(data["state"]),
    )


def save(path: Path, orders: list[Order]) -> None:
    """Write orders; an interrupted write leaves the old file."""
    text = json.dumps({"format": FORMAT, "orders": [order_to_dict(o) for o in orders]}, indent=1)
    path.write_text(text, encoding="utf-8")


def load(path: Path, catalog: Catalog) -> list[Order]:
    """Read orders; raises StorageError for another format."""
    data = json.loads(path.read_text(encoding="utf-8"))
    if data.get("format") != FORMAT:
        raise StorageError(f"{path}: format {data.get('format')}, this version reads {FORMAT}")
    return [order_from_dict(entry, catalog) for entry in data["orders"]]
