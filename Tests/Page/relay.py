# SPDX-License-Identifier: Apache-2.0
"""A TCP relay that can be interrupted, to test the page while the simulator is unreachable."""

import socket
import threading


class Relay:
    """Relays connections from its own port to another port of this machine."""

    def __init__(self, port):
        self._target = port
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._connections = []
        self._lock = threading.Lock()
        self._is_cut = False
        self.port = self._listener.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def cut(self):
        """Ends all connections; new ones are closed immediately."""
        with self._lock:
            self._is_cut = True
            connections, self._connections = self._connections, []
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def mend(self):
        """Lets connections pass again."""
        with self._lock:
            self._is_cut = False

    def close(self):
        self.cut()
        self._listener.close()

    def _accept(self):
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                if self._is_cut:
                    near.close()
                    continue
                far = socket.create_connection(("127.0.0.1", self._target))
                self._connections += [near, far]
            for source, sink in ((near, far), (far, near)):
                threading.Thread(target=self._copy, args=(source, sink), daemon=True).start()

    @staticmethod
    def _copy(source, sink):
        try:
            while data := source.recv(65536):
                sink.sendall(data)
        except OSError:
            pass
        finally:
            for connection in (source, sink):
                try:
                    connection.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass
