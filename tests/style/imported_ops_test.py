#!/usr/bin/env python3
"""The ops listed in docs/imported-models-reference.md are exactly those that an import accepts.

They are read from graph/op_table.cc, which has a row for each, and from graph/exported/exported_ops.cc, which maps ops
whose difference does not matter in a run to one name. The text below the list names the ops that the import removes.
"""
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
DOC = "docs/imported-models-reference.md"


def read(name):
    return (ROOT / name).read_text()


def doc_name(target):
    """Returns an op's name as the document writes it: "relu" for "aten.relu.default"."""
    return target.removeprefix("aten.").removesuffix(".default")


def body(text, function):
    """Returns the lines of a C++ function in clang-format's layout."""
    return re.search(rf"^[\w:]+ {function}\(.*?^}}$", text, re.MULTILINE | re.DOTALL)[0]


def table_ops(op_table):
    values = re.findall(r"\{\.op = ([^,}]*)", op_table)
    unread = [value for value in values if not re.fullmatch(r'"aten\.[\w.]+"', value)]
    if not values or unread:
        raise ValueError(f"graph/op_table.cc has rows that this does not read: {unread}")
    return {doc_name(value.strip('"')) for value in values}


def other_names(exported_ops):
    """Returns the ops that OpOf maps to the name of another op."""
    return {doc_name(name) for name in re.findall(r'\{"([\w.]+)", "[\w.]+"\}', body(exported_ops, "OpOf"))}


def removed_ops(exported_ops, exported_inline, header, imports):
    """Returns the ops that leave no op of their own: identities, nested graphs, and others that FateOf allows."""
    passed = body(exported_ops, "IsIdentity") + body(exported_ops, "BroadcastsNothing")
    found = {doc_name(name) for name in re.findall(r'"(aten\.[\w.]+)"', passed)}
    found |= set(re.findall(r'"higher_order\.(\w+)"', exported_inline))
    allowed = re.search(r"is_allowed = FindOp\(op\) != nullptr((?: \|\| op == k\w+)*);", imports)[1]
    for constant in re.findall(r"k\w+", allowed):
        found.add(doc_name(re.search(rf'char {constant}\[\] = "([^"]*)"', header)[1]))
    return found


def document_ops(document):
    """Returns the ops in the list of the section "Ops", and the ops that only the text below it names."""
    section = re.search(r"^## Ops\n\n(.*?\.)\n\n(.*?)(?=^## |\Z)", document, re.MULTILINE | re.DOTALL)
    listed = re.findall(r"`([\w.]+)`", section[1].split("(")[0])
    return listed, set(re.findall(r"`([\w.]+)`", section[2])) - set(listed)


def differences(where, named, taken):
    return ([f"{DOC}, {where}: lacks `{op}`" for op in sorted(taken - named)] +
            [f"{DOC}, {where}: has `{op}`, which is not taken" for op in sorted(named - taken)])


class Reading(unittest.TestCase):
    DOCUMENT = "# A\n\n## Ops\n\n`a`, `b.T` (of namespace\n`aten`, `default` left out).\n\n`c` leaves, `a` stays.\n"
    SAME = 'std::string OpOf(const N& n) {\n  map{\n      {"aten.b_.default", "aten.b.T"},\n  };\n}\n'

    def test_an_op_that_is_missing_and_one_too_many_are_reported(self):
        self.assertEqual(differences("list", {"a", "b.T"}, {"a", "b.T"}), [])
        self.assertEqual(differences("list", {"a"}, {"a", "b_"}), [f"{DOC}, list: lacks `b_`"])
        self.assertEqual(differences("list", {"a", "x"}, {"a"}), [f"{DOC}, list: has `x`, which is not taken"])

    def test_the_document_has_a_list_and_a_text_below(self):
        self.assertEqual(document_ops(self.DOCUMENT), (["a", "b.T"], {"c"}))

    def test_rows_and_other_names_are_read(self):
        rows = '{.op = "aten.a.default", .x = {}}, {.op = "aten.b.T"},\n{.op = "aten.c_.T",\n .x = 1}'
        self.assertEqual(table_ops(rows), {"a", "b.T", "c_.T"})
        self.assertEqual(other_names(self.SAME), {"b_"})

    def test_a_row_that_is_written_otherwise_is_an_error_and_not_passed_over(self):
        with self.assertRaisesRegex(ValueError, "kRelu"):
            table_ops('{.op = "aten.a.default"}, {.op = kRelu}')


class Tree(unittest.TestCase):
    def setUp(self):
        self.exported_ops = read("graph/exported/exported_ops.cc")
        self.listed, self.below = document_ops(read(DOC))

    def test_the_list_is_what_an_import_takes(self):
        taken = table_ops(read("graph/op_table.cc")) | other_names(self.exported_ops)
        self.assertEqual(differences("list of ops", set(self.listed), taken), [])

    def test_the_list_is_sorted_and_names_each_once(self):
        self.assertEqual(self.listed, sorted(set(self.listed)))

    def test_the_text_below_names_what_is_taken_out(self):
        removed = removed_ops(self.exported_ops, read("graph/exported/exported_inline.cc"), read("graph/exported/exported_ops.h"),
                              read("graph/exported/node_fate.cc"))
        self.assertEqual(differences("below the list of ops", self.below, removed), [])


if __name__ == "__main__":
    unittest.main()
