import unittest

from shop.money import Money, MoneyError, parse, total


class TestMoney(unittest.TestCase):
    def test_text(self):
        self.assertEqual(str(Money(123405)), "1,234.05 EUR")
        self.assertEqual(str(Money(-250)), "-2.50 EUR")

    def test_percent_rounds_half_up(self):
        self.assertEqual(Money(250).percent(5), Money(13))
        self.assertEqual(Money(1050).percent(7), Money(74))

    def test_allocate_keeps_the_sum(self):
        parts = Money(100).allocate([1, 1, 1])
        self.assertEqual([p.cents for p in parts], [34, 33, 33])
        with self.assertRaises(MoneyError):
            Money(100).allocate([0, 0])

    def test_parse(self):
        self.assertEqual(parse("1,234.50 EUR"), Money(123450))
        self.assertEqual(parse("12.5"), Money(1250))
        self.assertEqual(parse("-3"), Money(-300))
        with self.assertRaises(MoneyError):
            parse("twelve")

    def test_total(self):
        self.assertEqual(total([Money(1), Money(2)]), Money(3))
        self.assertEqual(total([]), Money(0))
