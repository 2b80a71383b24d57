"""Products and where they come from."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from shop.money import Money, MoneyError, parse


class CatalogError(ValueError):
    """A product file that cannot be used; the message names file and line."""


@dataclass(frozen=True)
class Product:
    """One thing for sale; `sku` is unique within a catalogue."""

    sku: str
    name: str
    price: Money
    category: str = "misc"
    tax_class: str = "standard"
    tags: frozenset[str] = field(default_factory=frozenset)

    def matches(self, query: str) -> bool:
        """Say whether a word of the query stands in name, sku or tags."""
        words = query.split()
        haystack = f"{self.sku} {self.name} {' '.join(self.tags)}".lower()
        return any(word in haystack for word in words)


class Catalog:
    """Products by sku, in the order they were added."""

    def __init__(self, products: Iterable[Product] = ()) -> None:
        self._products: dict[str, Product] = {}
        for product in products:
            self.add(product)

    def __len__(self) -> int:
        return len(self._products)

    def __iter__(self) -> Iterator[Product]:
        return iter(self._products.values())

    def __contains__(self, sku: str) -> bool:
        return sku in self._products

    def add(self, product: Product) -> None:
        """Add a product; raises CatalogError for a sku that is taken."""
        if product.sku in self._products:
            raise CatalogError(f"sku {product.sku} is taken by {self._products[product.sku].name!r}")
        self._products[product.sku] = product

    def get(self, sku: str) -> Product:
        """Give the product; raises CatalogError for an unknown sku."""
        try:
            return self._products[sku]
        except KeyError:
            raise CatalogError(f"unknown sku {sku!r}") from None

    def search(self, query: str) -> list[Product]:
        """Find products by words, in catalogue order."""
        return [product for product in self if product.matches(query)]

    def by_category(self) -> dict[str, list[Product]]:
        """Group products by category, categories sorted."""
        groups: dict[str, list[Product]] = {}
        for product in self:
            groups.setdefault(product.category, []).append(product)
        return groups


def load_csv(path: Path) -> Catalog:
    """Read sku,name,price,category,tax_class,tags; blank lines and lines that start with # are skipped."""
    catalog = Catalog()
    with path.open(newline="", encoding="utf-8") as file:
        for number, row in enumerate(csv.reader(file), 1):
            if not row or row[0].startswith("#"):
                continue
            if len(row) < 3:
                raise CatalogError(f"{path}:{number}: expected at least sku,name,price, got {row}")
            try:
                price = parse(row[2])
            except MoneyError as error:
                raise CatalogError(f"{path}:{number}: {error}") from None
            catalog.add(
                Product(
                    sku=row[0].strip(),
                    name=row[1].strip(),
                    price=price,
                    category=row[3].strip() if len(row) > 3 else "misc",
                    tax_class=row[4].strip() if len(row) > 4 else "standard",
                    tags=frozenset(row[5].split()) if len(row) > 5 else frozenset(),
                )
            )
    return catalog
