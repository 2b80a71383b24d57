"""Discounts and tax."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date

from shop.catalog import Product
from shop.money import ZERO, Money, total

TAX_RATES = {"standard": 19.0, "reduced": 7.0, "free": 0.0}


@dataclass(frozen=True)
class Line:
    """A product and how many of it."""

    product: Product
    quantity: int

    @property
    def gross(self) -> Money:
        """Price before discounts."""
        return self.product.price * self.quantity


Rule = Callable[[Sequence[Line], date], Money]
"""A discount: lines and the day of the order in, the amount to take off out."""


def quantity_discount(category: str, least: int, rate: float) -> Rule:
    """Take `rate` percent off a category from `least` units of it on."""

    def rule(lines: Sequence[Line], day: date) -> Money:
        concerned = [line for line in lines if line.product.category == category]
        if sum(line.quantity for line in concerned) > least:
            return total([line.gross for line in concerned]).percent(rate)
        return ZERO

    return rule


def season(first: date, last: date, rate: float) -> Rule:
    """Take `rate` percent off everything between two days, both included."""

    def rule(lines: Sequence[Line], day: date) -> Money:
        return total([line.gross for line in lines]).percent(rate) if first <= day <= last else ZERO

    return rule


def voucher(amount: Money, least: Money) -> Rule:
    """Take a fixed amount off an order of at least `least`, never more than the order is worth."""

    def rule(lines: Sequence[Line], day: date) -> Money:
        worth = total([line.gross for line in lines])
        return min(amount, worth) if worth >= least else ZERO

    return rule


@dataclass(frozen=True)
class Quote:
    """What an order costs."""

    gross: Money
    discount: Money
    tax: Money

    @property
    def net(self) -> Money:
        """Gross less discount; tax is included in prices."""
        return self.gross - self.discount


def quote(lines: Sequence[Line], rules: Sequence[Rule], day: date) -> Quote:
    """Price an order: the best single discount counts, tax is the share contained in the net price."""
    gross = total([line.gross for line in lines])
    discount = max((rule(lines, day) for rule in rules), default=ZERO)
    return Quote(gross=gross, discount=discount, tax=contained_tax(lines, gross, discount))


def contained_tax(lines: Sequence[Line], gross: Money, discount: Money) -> Money:
    """Compute the tax contained in the lines after the discount is spread over them by value."""
    if not gross:
        return ZERO
    shares = discount.allocate([line.gross.cents for line in lines])
    tax = 0
    for line, share in zip(lines, shares):
        rate = TAX_RATES[line.product.tax_class]
        paid = line.gross - share
        tax += round(paid.cents * rate / (100 + rate))
    return Money(tax)
