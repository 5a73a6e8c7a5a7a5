import unittest

from discount import price


class PriceTest(unittest.TestCase):
    def test_one_costs_its_price(self):
        self.assertEqual(price(1, 250), 250)

    def test_nine_cost_nine_times_as_much(self):
        self.assertEqual(price(9, 100), 900)

    def test_ten_cost_a_tenth_less(self):
        self.assertEqual(price(10, 100), 900)


if __name__ == "__main__":
    unittest.main()
