#!/usr/bin/env python3
"""Tests that the server accepts again after a client on loopback took all file descriptors. network_attacks_test.py has the
attacks on a server with TLS.

Usage: attacks_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import contextlib
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

import http2
from service import Service, wait_for
from service_case import BINARIES, ServiceCase, main


def connect(address):
    connection = http2.tcp(address, seconds=30)
    connection.sendall(http2.PREFACE + http2.frame(http2.SETTINGS, 0, 0, b""))
    return connection


class Attacks(ServiceCase):
    def expect_answer(self, service, when):
        begin = time.monotonic()
        code, out, err = service.ampctl("job", "list", seconds=10)
        print(f"  {when}: answered in {time.monotonic() - begin:.2f} s", flush=True)
        self.assertEqual(code, 0, f"{when}: {out}{err}")

    def test_more_connections_than_descriptors(self):
        few = {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))}
        with Service(BINARIES, options=few) as service:
            connections = []
            with contextlib.suppress(OSError):
                for _ in range(300):
                    connections.append(connect(service.address))
            wait_for(lambda: "as many as the server takes" in service.server.log(), "the server says so")
            for connection in connections:
                connection.close()
            begin = time.monotonic()
            wait_for(lambda: service.ampctl("job", "list")[0] == 0, "it accepts again", 15)
            print(f"  accepts again {time.monotonic() - begin:.2f} s after {len(connections)} connections closed",
                  flush=True)
            self.expect_answer(service, "afterwards")


if __name__ == "__main__":
    main()
