import tempfile
import unittest
from datetime import date
from pathlib import Path

from shop import reports, storage
from shop.catalog import CatalogError, load_csv
from shop.inventory import Inventory
from shop.ledger import Ledger
from shop.money import Money
from tests.test_orders import DAY, book


class TestCatalog(unittest.TestCase):
    def file(self, text):
        path = Path(tempfile.mkdtemp()) / "catalog.csv"
        path.write_text(text, encoding="utf-8")
        return path

    def test_load_and_search(self):
        catalog = load_csv(self.file("# teas\nT1,Green Tea,4.50,tea,reduced,loose leaf\n\nC1,Cup,12.00,china\n"))
        self.assertEqual(len(catalog), 2)
        self.assertEqual([p.sku for p in catalog.search("GREEN")], ["T1"])
        self.assertEqual([p.sku for p in catalog.search("green cup")], [])

    def test_errors_name_the_line(self):
        with self.assertRaisesRegex(CatalogError, "catalog.csv:2"):
            load_csv(self.file("T1,Green Tea,4.50\nT2,Black Tea,dear\n"))

    def test_categories_are_sorted(self):
        catalog = load_csv(self.file("T1,Tea,4.50,tea\nC1,Cup,12.00,china\n"))
        self.assertEqual(list(catalog.by_category()), ["china", "tea"])


class TestInventory(unittest.TestCase):
    def test_low_is_below_the_level(self):
        inventory = Inventory()
        inventory.receive("T1", 5)
        inventory.reorder_level["T1"] = 5
        self.assertEqual(inventory.low(), [])

    def test_reserving_twice_adds_up(self):
        inventory = Inventory()
        inventory.receive("T1", 5)
        inventory.reserve("A1", "T1", 2)
        inventory.reserve("A1", "T1", 1)
        self.assertEqual(inventory.reserved("T1"), 3)


class TestLedger(unittest.TestCase):
    def test_months_sort(self):
        ledger = Ledger()
        ledger.book(date(2026, 3, 1), "a", "bank", "sales", Money(100))
        ledger.book(date(2026, 11, 1), "b", "bank", "sales", Money(50))
        self.assertEqual(list(ledger.monthly("bank")), ["2026-03", "2026-11"])


class TestReports(unittest.TestCase):
    def test_sales_counts_shipped_orders(self):
        b = book()
        order = b.draft("Mori", DAY)
        b.add(order, "C1", 1)
        b.place(order)
        b.pay(order)
        b.ship(order)
        self.assertIn("total 12.00 EUR", reports.sales([order]))

    def test_best_sellers_leave_cancelled_orders_out(self):
        b = book()
        order = b.draft("Mori", DAY)
        b.add(order, "C1", 1)
        b.cancel(order)
        self.assertEqual(reports.best_sellers([order]), [])


class TestStorage(unittest.TestCase):
    def test_round_trip_keeps_the_quote(self):
        b = book()
        order = b.draft("Mori", DAY)
        b.add(order, "C1", 2)
        b.place(order)
        path = Path(tempfile.mkdtemp()) / "orders.json"
        storage.save(path, [order])
        again = storage.load(path, b.catalog)[0]
        self.assertEqual(again.quoted, order.quoted)
