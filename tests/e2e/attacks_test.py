#!/usr/bin/env python3
"""Tests the server against a malicious client on loopback, with bounded counts. The server keeps answering other
clients during each attack and after it.

Usage: attacks_test.py FOLDER_OF_BINARIES [REPORT.xml].
"""
import contextlib
import pathlib
import resource
import socket
import struct
import time

from service import Service, wait_for
from service_case import BINARIES, ServiceCase, main

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
SETTINGS, HEADERS, RST_STREAM, CONTINUATION = 4, 1, 3, 9
END_STREAM_AND_HEADERS = 5
MIB = 1 << 20
# How much memory of the server these floods may take. Larger floods take more: gRPC has no bound (docs/guarantees.md).
FLOOD_BYTES = 192 * MIB
LEFT_BYTES = 64 * MIB  # How much of it the server may keep after the connection has closed.


def frame(kind, flags, stream, payload):
    """Returns one HTTP/2 frame (RFC 9113, 4.1)."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    """Returns a header field that is not added to any table (RFC 7541, 6.2.2). Name and value must be shorter than 127
    bytes."""
    return b"\0" + bytes([len(name)]) + name + bytes([len(value)]) + value


def connect(address):
    host, port = address.split(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.sendall(PREFACE + frame(SETTINGS, 0, 0, b""))
    return connection


class Attacks(ServiceCase):
    def resident(self, service):
        """Returns the server's resident memory in bytes."""
        status = pathlib.Path(f"/proc/{service.server.process.pid}/status").read_text()
        return int(status.split("VmRSS:")[1].split()[0]) * 1024

    def expect_answer(self, service, when):
        begin = time.monotonic()
        code, out, err = service.ampctl("job", "list", seconds=10)
        print(f"  {when}: answered in {time.monotonic() - begin:.2f} s", flush=True)
        self.assertEqual(code, 0, f"{when}: {out}{err}")

    def expect_memory_back(self, service, before):
        wait_for(lambda: self.resident(service) < before + LEFT_BYTES, "the memory is given back", 15)

    def flood(self, connection, frames):
        """Sends frames until all are sent or the server closes. Returns the number of bytes sent."""
        sent = 0
        with contextlib.suppress(OSError):
            for one in frames:
                connection.sendall(one)
                sent += len(one)
        return sent

    def test_a_header_block_without_an_end(self):
        with Service(BINARIES) as service:
            before = self.resident(service)
            with connect(service.address) as connection:
                block = literal(b"", b"") * 5461  # Empty fields cost the server the most memory for each byte.
                frames = [frame(HEADERS, 0, 1, b"\x82")] + [frame(CONTINUATION, 0, 1, block)] * 300
                sent = self.flood(connection, frames)
                self.expect_answer(service, f"{sent / MIB:.1f} MiB of one header block")
                grown = self.resident(service) - before
                print(f"  the server grew by {grown / MIB:.0f} MiB", flush=True)
                self.assertLess(grown, FLOOD_BYTES)
            self.expect_memory_back(service, before)

    def test_streams_opened_and_reset(self):
        with Service(BINARIES) as service:
            before = self.resident(service)
            fields = (b"\x83\x86" + literal(b":path", b"/ampd.v1.JobService/ListJobs") + literal(b":authority", b"a") +
                      literal(b"content-type", b"application/grpc") + literal(b"te", b"trailers"))
            with connect(service.address) as connection:
                streams = (frame(HEADERS, END_STREAM_AND_HEADERS, stream, fields) +
                           frame(RST_STREAM, 0, stream, struct.pack(">I", 8)) for stream in range(1, 10_000, 2))
                sent = self.flood(connection, streams)
                self.expect_answer(service, f"{sent / MIB:.1f} MiB of streams that are reset")
                grown = self.resident(service) - before
                print(f"  the server grew by {grown / MIB:.0f} MiB", flush=True)
                self.assertLess(grown, FLOOD_BYTES)
            self.expect_memory_back(service, before)

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
