#!/usr/bin/env python3
"""Check the style check: each rule finds what it is for, and leaves clean code alone."""
import unittest

import check_style


class CheckStyle(unittest.TestCase):
    def found(self, name, text):
        return list(check_style.findings(name, text))

    def test_a_room_may_not_include_what_its_row_forbids(self):
        self.assertTrue(self.found("server/cluster_state.cc", '#include "base/clock.h"\n'))
        self.assertTrue(self.found("graph/graph.h", "#include <ATen/core/Tensor.h>\n"))
        self.assertTrue(self.found("worker/train/session.cc", "#include <grpcpp/grpcpp.h>\n"))
        self.assertTrue(self.found("client/commands/list.cc", '#include "server/ledger.h"\n'))
        self.assertTrue(self.found("client/commands/list.cc", '#include "worker/data/dataset.h"\n'))
        self.assertFalse(self.found("client/commands/list.cc", '#include "worker/data/file_report.h"\n'))

    def test_the_longest_room_decides(self):
        self.assertTrue(self.found("base/clock.cc", '#include "ampd/v1/job.pb.h"\n'))
        self.assertFalse(self.found("server/coordinator.cc", '#include "server/ledger.h"\n#include "base/clock.h"\n'))

    def test_a_main_wires_everything(self):
        self.assertFalse(self.found("server/main.cc", '#include "server/rpc/job_service.h"\n'))

    def test_a_sleep_in_a_test_is_found(self):
        call = "absl::" + "SleepFor(absl::Seconds(1));"
        self.assertTrue(self.found("tests/base/x_test.cc", call))
        self.assertFalse(self.found("worker/train/x.cc", call))

    def test_a_clock_that_no_test_can_move_is_found(self):
        self.assertTrue(self.found("server/coordinator.cc", "absl::" + "Now()"))

    def test_an_open_end_is_found(self):
        self.assertTrue(self.found("base/x.cc", "// TO" + "DO: later"))


if __name__ == "__main__":
    unittest.main()
