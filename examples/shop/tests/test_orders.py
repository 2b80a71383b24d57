import unittest
from datetime import date

from shop.catalog import Catalog, Product
from shop.inventory import Inventory, StockError
from shop.ledger import Ledger
from shop.money import Money
from shop.orders import OrderBook, OrderError, State
from shop.pricing import quantity_discount, season, voucher

DAY = date(2026, 3, 14)


def book(rules=()):
    catalog = Catalog([
        Product("T1", "Green tea", Money(450), "tea", "reduced", frozenset({"loose"})),
        Product("T2", "Black tea", Money(390), "tea", "reduced"),
        Product("C1", "Cup", Money(1200), "china"),
    ])
    inventory = Inventory()
    for sku in ("T1", "T2", "C1"):
        inventory.receive(sku, 10)
    return OrderBook(catalog, inventory, Ledger(), rules)


class TestOrders(unittest.TestCase):
    def test_same_sku_adds_up(self):
        b = book()
        order = b.draft("Mori", DAY)
        b.add(order, "T1", 2)
        b.add(order, "T1", 3)
        self.assertEqual(order.lines[0].quantity, 5)

    def test_reserved_stock_is_not_available(self):
        b = book()
        first, second = b.draft("Mori", DAY), b.draft("Sato", DAY)
        b.add(first, "C1", 8)
        b.place(first)
        b.add(second, "C1", 5)
        with self.assertRaises(StockError):
            b.place(second)

    def test_all_or_nothing(self):
        b = book()
        order = b.draft("Mori", DAY)
        b.add(order, "T1", 2)
        b.add(order, "C1", 11)
        with self.assertRaises(StockError):
            b.place(order)
        self.assertEqual(b.inventory.available("T1"), 10)

    def test_states(self):
        b = book()
        order = b.draft("Mori", DAY)
        b.add(order, "T1")
        b.place(order)
        b.pay(order)
        b.ship(order)
        self.assertIs(order.state, State.SHIPPED)
        self.assertEqual(b.inventory.on_hand("T1"), 9)
        with self.assertRaises(OrderError):
            b.cancel(order)

    def test_discount_from_the_least_quantity_on(self):
        b = book([quantity_discount("tea", 5, 10)])
        order = b.draft("Mori", DAY)
        b.add(order, "T1", 5)
        self.assertEqual(b.place(order).discount, Money(225))

    def test_best_single_discount(self):
        b = book([season(DAY, DAY, 5), voucher(Money(100), Money(1000))])
        order = b.draft("Mori", DAY)
        b.add(order, "C1", 2)
        self.assertEqual(b.place(order).discount, Money(120))

    def test_payment_balances(self):
        b = book()
        order = b.draft("Mori", DAY)
        b.add(order, "C1", 1)
        b.place(order)
        b.pay(order)
        self.assertEqual(b.ledger.balance("bank", until=DAY), Money(1200))
        self.assertEqual(sum(m.cents for m in b.ledger.trial_balance().values()), 0)
