#!/usr/bin/env python3
"""center_strangers_test.py PROGRAM [unittest options]: who does not belong to a run with a center, and what such a one says."""

import contextlib
import os
import re
import signal
import socket
import ssl
import struct
import time
import unittest
from pathlib import Path

from center_program import LONG, SMALL, ByHand, Center

# The one that servers speak.
PROTOCOL = int(re.search(r"kProtocol = (\d+);", (Path(__file__).parent.parent / "src/center/protocol.h").read_text()).group(1))


def frame(kind, flags, stream, payload):
    """Of HTTP/2."""
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def header(name, value):
    return b"\0" + bytes([len(name)]) + name.encode() + bytes([len(value)]) + value.encode()


def call(path="/cohort.Center/Connect"):
    """The opening of a call, as gRPC does it."""
    fields = {":method": "POST", ":scheme": "http", ":path": path, ":authority": "cohort.run", "te": "trailers",
              "content-type": "application/grpc"}
    return (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + frame(4, 0, 0, b"")
            + frame(1, 4, 1, b"".join(header(*field) for field in fields.items())))


def message(body, announced=None):
    """Of gRPC, in frames of 16 KiB."""
    whole = struct.pack(">BI", 0, len(body) if announced is None else announced) + body
    return b"".join(frame(0, 0, 1, whole[at:at + 16384]) for at in range(0, len(whole), 16384))


class Strangers(ByHand):
    def credentials(self, name):
        """A file that a server makes which others could reach."""
        server, _ = self.serve(job=self.folder / name, listen="0.0.0.0:0")
        server.send_signal(signal.SIGTERM)
        self.finish(server, code=75)
        file = self.folder / name / "credentials.pem"
        self.assertEqual(file.stat().st_mode & 0o777, 0o600)
        return file

    def connect(self, address, credentials=None):
        host, port = address.split(":")
        connection = socket.create_connection((host, int(port)), timeout=10)
        self.addCleanup(connection.close)
        if credentials is None:
            return connection
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(credentials)
        own = self.folder / "own.pem"
        blocks = re.findall(r"-----BEGIN [^-]+-----.*?-----END [^-]+-----\n", credentials.read_text(), re.S)
        own.write_text("".join(blocks[1:]))  # without the authority's, which comes first
        context.load_cert_chain(own)
        context.set_alpn_protocols(["h2"])
        connection = context.wrap_socket(connection, server_hostname="cohort.run")
        self.addCleanup(connection.close)
        return connection

    def require_dropped(self, connection, *parts):
        """After these bytes the other side ends what we have begun, in a few seconds."""
        answer = b""
        with contextlib.suppress(ConnectionError, ssl.SSLError):
            for part in parts:
                connection.sendall(part)
            give_up = time.monotonic() + 10
            # The end of the connection, or of the stream: trailers, or a reset.
            while b"grpc-status" not in answer and frame(3, 0, 1, b"\0\0\0\0")[:9] not in answer:
                self.assertLess(time.monotonic(), give_up, answer)
                received = connection.recv(65536)
                if not received:
                    break
                answer += received
        return answer

    def run_among(self, address, strangers, *more):
        """A run that two workers do, while strangers come: it does not begin before the second worker does."""
        run = [*LONG, "--sync", "backup", "--backups", "0", "--workers", "2", *more]
        first = self.join(address, *run)
        self.reach(first, lambda: ", 1 member," in self.run_program("status", address, *more).stdout)
        strangers()
        second = self.join(address, *run)
        self.finish(first)
        self.finish(second)
        self.assertEqual(self.summary()["weights_hash"], self.calm())

    def test_only_the_runs_own_workers_come_in(self):
        own, other = self.credentials("own"), self.credentials("other")
        self.assertNotEqual(own.read_bytes(), other.read_bytes())
        server, address = self.serve("--credentials", own, job=self.folder / "own")

        def strangers():
            for what, more in {"nothing": [], "another's": ["--credentials", other], "plain text": ["--insecure"]}.items():
                with self.subTest(what):
                    sentence = self.refused(address, *LONG, "--recovery-wait", "1s", *more, code=4)
                    self.assertIn(f"server 0 at {address}", sentence)
            for what, words in {"garbage": os.urandom(5000), "a request": b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                                "a call in plain text": call() + message(b"\0" * 4)}.items():
                with self.subTest(what):
                    self.require_dropped(self.connect(address), words)
            # Who has the file is listened to, but not believed.
            for what, words in self.nonsense().items():
                with self.subTest(what):
                    self.require_dropped(self.connect(address, own), *words)
            silent.append(self.connect(address, own))
            silent[0].sendall(call())  # and no word more
        silent = []
        self.run_among(address, strangers, "--credentials", own)
        silent[0].close()
        self.finish(server)

    @staticmethod
    def nonsense():
        hello = b"\x0a\x04\x08" + bytes([PROTOCOL]) + b"\x18\x01"
        return {"an oversized message": [call(), message(b"x" * 100000, announced=17 << 20)],
                "an endless message": [call(), message(b"x" * 100000, announced=0xffffffff)],
                "no envelope": [call(), message(b"")],
                "an endless envelope": [call(), message(b"\xff\xff\xff\xff" + b"x" * 1000)],
                "a broken envelope": [call(), message(b"\x10\0\0\0" + b"\xff" * 16)],
                "no greeting": [call(), message(b"\0\0\0\0")],
                "two greetings": [call(), message(struct.pack("<I", len(hello)) + hello) * 2],
                "another method": [call("/cohort.Center/Other"), message(b"")]}

    def test_nonsense_in_plain_text(self):
        server, address = self.serve()

        def strangers():
            for what, words in {"garbage": [os.urandom(5000)], "a request": [b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"],
                                **self.nonsense()}.items():
                with self.subTest(what):
                    answer = self.require_dropped(self.connect(address), *words)
                    self.assertIn(sentences.get(what, b""), answer)
        sentences = {"no greeting": b"the first word is a greeting", "two greetings": b"it has greeted before",
                     "another method": b"there is no such method"}
        self.run_among(address, strangers)
        self.finish(server)

    def test_an_address_that_others_reach_needs_credentials(self):
        self.assertIn("--credentials", self.refused("198.51.100.1:7000", *SMALL))
        done = self.run_program("serve", "--listen", "0.0.0.0:0", "--servers", "2", "--server-index", "1",
                                "--job-dir", self.folder / "second", code=2)
        self.assertIn("--credentials FILE", done.stderr)
        server, address = self.serve(job=self.folder / "own", listen="0.0.0.0:0")
        address = address.replace("0.0.0.0", "127.0.0.1")
        worker = self.join(address, *SMALL, "--train-steps", "20", "--credentials", self.folder / "own" / "credentials.pem")
        self.finish(worker)
        self.finish(server)

    def test_a_file_that_others_may_read_is_refused(self):
        file = self.credentials("own")
        file.chmod(0o644)
        self.assertIn("credentials.pem", self.refused("127.0.0.1:7000", *SMALL, "--credentials", file))


if __name__ == "__main__":
    unittest.main()
