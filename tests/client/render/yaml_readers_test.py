#!/usr/bin/env python3
"""Checks that a reader of YAML 1.1 gets the values that ampctl wrote.

yaml_text_test.cc writes tests/golden/client/values.yaml: texts whose keys equal their values, and numbers and flags whose
keys are the values as text.
"""
import math
import pathlib
import unittest

import yaml

VALUES = pathlib.Path(__file__).parents[2] / "golden" / "client" / "values.yaml"


class YamlReaders(unittest.TestCase):
    def setUp(self):
        self.values = yaml.safe_load(VALUES.read_text(encoding="utf-8"))

    def test_texts_stay_texts(self):
        texts = self.values["texts"]
        self.assertGreater(len(texts), 90)
        for key, value in texts.items():
            self.assertIs(type(key), str, key)
            self.assertIs(type(value), str, key)
            self.assertEqual(key, value)

    def test_numbers_are_numbers(self):
        for key, value in self.values["numbers"].items():
            self.assertIn(type(value), (int, float), key)
            is_nan = key == "nan" and math.isnan(value)
            self.assertTrue(is_nan or value == float(key) or str(value) == key, key)

    def test_flags_are_flags(self):
        for key, value in self.values["flags"].items():
            self.assertIs(value, key == "True")


if __name__ == "__main__":
    unittest.main()
