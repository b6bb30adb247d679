#!/usr/bin/env python3
"""Checks the style check: each rule finds what it should, and accepts clean code."""
import pathlib
import unittest

import check_style


class CheckStyle(unittest.TestCase):
    def found(self, name, text):
        return list(check_style.findings(name, text))

    def test_a_folder_may_include_only_what_its_line_allows(self):
        self.assertTrue(self.found("server/state/cluster_state.cc", '#include "base/clock.h"\n'))
        self.assertTrue(self.found("server/state/cluster_state.cc", '#include "server/ledger/ledger.h"\n'))
        self.assertTrue(self.found("graph/graph.h", "#include <ATen/core/Tensor.h>\n"))
        self.assertTrue(self.found("worker/train/loop/session.cc", "#include <grpcpp/grpcpp.h>\n"))
        self.assertTrue(self.found("worker/train/loop/session.cc", '#include "base/grpc/grpc_status.h"\n'))
        self.assertTrue(self.found("client/commands/list.cc", '#include "server/ledger/ledger.h"\n'))
        self.assertTrue(self.found("base/clock.cc", '#include "ampd/v1/job.pb.h"\n'))
        self.assertFalse(self.found("server/coordinator/x.cc", '#include "server/ledger/ledger.h"\n#include "base/clock.h"\n'))

    def test_every_folder_with_sources_has_a_line(self):
        self.assertIn("has no line", self.found("server/cellar/wine.cc", "")[0])
        self.assertIn("has no line", self.found("attic/box.h", "")[0])
        self.assertFalse(self.found("tests/server/state/x_test.cc", ""))

    def test_every_line_is_of_a_folder_that_is_there(self):
        root = pathlib.Path(__file__).parents[2]
        for folder in check_style.ROOMS:
            self.assertTrue(any((root / folder).glob("*.*")), folder)

    def test_every_folder_is_in_the_tree_of_the_architecture_page(self):
        page = (pathlib.Path(__file__).parents[2] / "docs" / "architecture.md").read_text()
        for folder in check_style.ROOMS:
            self.assertIn(f"`{folder}`", page)

    def test_signs_of_unclear_english_are_found(self):
        line = "// " + "Of all jobs here."
        found = self.found("base/x.h", f"{line}\nint y = 0;  // {'of'} them\nvoid {'Tell'}Server();\n")
        for sign in ("opens with 'Of'", "opens with 'of'", "'tell'"):
            self.assertTrue(any(sign in one for one in found), found)
        self.assertFalse(self.found("base/x.h", "// Of course it is.\n"))

    def test_a_constant_that_hides_a_headers_is_found(self):
        header = {"graph/x.h": "inline constexpr char kBatch[] = \"s77\";\n"}
        found = lambda name, text: list(check_style.hiding_findings({**header, name: text}))
        self.assertIn("a.cc:2: kBatch", found("graph/a.cc", "\nconstexpr char kBatch[] = \"b\";\n")[0])
        self.assertFalse(found("graph/a.cc", "constexpr int kBatches = 2;\nvoid F() {\n  constexpr int kBatch = 2;\n}\n"))
        self.assertFalse(found("data/a.cc", "constexpr int kBatch = 2;\n"))

    def test_a_name_whose_header_is_not_included_is_found(self):
        use = 'std::string a = absl::StrFormat("%d", 1);  // absl::StrJoin\n'
        found = lambda **texts: list(check_style.missing_include_findings(
            {name.replace("_", "."): text for name, text in texts.items()}))
        self.assertEqual(["a.cc: absl::StrFormat needs #include of absl/strings/str_format.h"], found(a_cc=use))
        self.assertFalse(found(a_cc='#include "absl/strings/str_format.h"\n' + use))
        self.assertFalse(found(a_h='#include "absl/strings/str_format.h"\n', a_cc='#include "a.h"\n' + use))
        self.assertTrue(found(a_h="", a_cc='#include "a.h"\n' + use))

    def test_a_main_wires_everything(self):
        self.assertFalse(self.found("server/main.cc", '#include "server/rpc/job_service.h"\n'))

    def test_a_sleep_in_a_test_is_found(self):
        call = "absl::" + "SleepFor(absl::Seconds(1));"
        self.assertTrue(self.found("tests/base/x_test.cc", call))
        self.assertFalse(self.found("worker/train/loop/x.cc", call))

    def test_output_of_the_client_beside_its_door_is_found(self):
        call = "std::" + 'printf("%s", name);'
        self.assertTrue(self.found("client/commands/job/x.cc", call))
        self.assertTrue(self.found("client/terminal/session.cc", "std::" + "cerr << name;"))
        self.assertFalse(self.found("client/terminal/standard_streams.cc", call))
        self.assertFalse(self.found("server/main.cc", call))

    def test_a_clock_that_no_test_can_move_is_found(self):
        self.assertTrue(self.found("server/coordinator/coordinator.cc", "absl::" + "Now()"))

    def test_an_open_end_is_found(self):
        self.assertTrue(self.found("base/x.cc", "// TO" + "DO: later"))


if __name__ == "__main__":
    unittest.main()
