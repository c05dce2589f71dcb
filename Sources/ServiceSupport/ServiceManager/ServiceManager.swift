// SPDX-License-Identifier: Apache-2.0

package import Glibc
import NIOConcurrencyHelpers

/// Reports the state of this process to the service manager that started it, like sd_notify(3) of systemd.
///
/// A message is a datagram to the socket that `NOTIFY_SOCKET` names; without that variable nothing is sent. No caller
/// waits for a message, and a lost message is not a failure of this process. If the service manager is busy and its
/// socket is full, the last state is sent repeatedly, since the manager treats a start without a message as a failure.
///
/// libsystemd is not used: it would be loaded at each start of each command, and a static program cannot link it.
package final class ServiceManager: Sendable {
    /// The reported states.
    package enum State: Hashable, Sendable {
        /// The service is running.
        case ready(status: String)
        /// The configuration is being reloaded.
        case reloading(status: String)
        /// The process is shutting down, within this time.
        case stopping(status: String, durationMax: Duration)
        /// The process is working.
        case watchdog
    }

    private struct Unsent {
        /// The last state, if the socket was full.
        var message: String?
        var isRetrying = false
    }

    private let socket: Socket?
    private let unsent = NIOLockedValueBox(Unsent())
    /// The process counts as hung after this time without ``State/watchdog``; `nil` if there is no watchdog.
    package let watchdogTimeout: Duration?

    /// Finds the service manager.
    package init(_ variables: [String: String], processIdentifier: pid_t = getpid()) {
        self.socket = variables["NOTIFY_SOCKET"].flatMap { Socket($0) }
        let isOurs = variables["WATCHDOG_PID"].map { $0 == "\(processIdentifier)" } ?? true
        let microseconds = variables["WATCHDOG_USEC"].flatMap { Int64($0) } ?? 0
        self.watchdogTimeout = isOurs && microseconds > 0 && self.socket != nil ? .microseconds(microseconds) : nil
    }

    /// The delay between attempts to send the last state, and their number: together, they take as long as systemd
    /// waits for a start by default.
    private static let (retryDelay, retryCountMax) = (Duration.milliseconds(50), 1800)

    /// Reports a state without waiting.
    package func report(_ state: State) {
        guard let socket else { return }
        guard state != .watchdog else {
            self.sendUnsent(socket)
            _ = socket.send(Self.message(.watchdog))
            return
        }
        let message = Self.message(state)
        let beginsRetrying = self.unsent.withLockedValue { unsent in
            // A new state replaces the one before.
            unsent.message = socket.send(message) ? nil : message
            defer { unsent.isRetrying = unsent.isRetrying || unsent.message != nil }
            return unsent.message != nil && !unsent.isRetrying
        }
        if beginsRetrying { Task { await self.retry(socket) } }
    }

    /// Returns whether nothing is left to send.
    @discardableResult
    private func sendUnsent(_ socket: Socket) -> Bool {
        self.unsent.withLockedValue { unsent in
            guard let message = unsent.message else { return true }
            if socket.send(message) { unsent.message = nil }
            return unsent.message == nil
        }
    }

    private func retry(_ socket: Socket) async {
        for _ in 0..<Self.retryCountMax {
            try? await Task.sleep(for: Self.retryDelay)
            if self.sendUnsent(socket) { break }
        }
        self.unsent.withLockedValue { $0.isRetrying = false }
    }

    /// The lines of a message.
    static func message(_ state: State) -> String {
        switch state {
        case .ready(let status): "READY=1\n" + Self.line(status)
        case .reloading(let status): "RELOADING=1\nMONOTONIC_USEC=\(Self.microseconds)\n" + Self.line(status)
        case .stopping(let status, let duration):
            "STOPPING=1\nEXTEND_TIMEOUT_USEC=\(Int64(duration / .microseconds(1)))\n" + Self.line(status)
        case .watchdog: "WATCHDOG=1\n"
        }
    }

    private static func line(_ status: String) -> String {
        "STATUS=\(status.split { $0.isNewline }.joined(separator: " "))\n"
    }

    /// The monotonic time, which tells systemd that the message about a reload follows its signal.
    private static var microseconds: Int64 {
        var now = timespec()
        unsafe clock_gettime(CLOCK_MONOTONIC, &now)
        return Int64(now.tv_sec) * 1_000_000 + Int64(now.tv_nsec) / 1000
    }
}

extension ServiceManager {
    /// A datagram socket with its destination.
    private final class Socket: Sendable {
        private let descriptor: CInt
        private let address: sockaddr_un
        private let addressByteCount: socklen_t

        init?(_ name: String) {
            guard name.hasPrefix("/") || name.hasPrefix("@"), name.utf8.count > 1 else { return nil }
            var bytes = Array(name.utf8)
            if name.hasPrefix("@") { bytes[0] = 0 }
            var address = sockaddr_un()
            address.sun_family = sa_family_t(AF_UNIX)
            let capacity = MemoryLayout.size(ofValue: address.sun_path)
            // A path ends with a zero byte; the length of an abstract name is that of the address.
            guard bytes.count < capacity else { return nil }
            unsafe withUnsafeMutableBytes(of: &address.sun_path) { unsafe $0.copyBytes(from: bytes) }
            self.address = address
            let pathOffset = MemoryLayout.size(ofValue: address) - capacity
            self.addressByteCount = socklen_t(pathOffset + bytes.count + (name.hasPrefix("/") ? 1 : 0))
            let kind = SOCK_DGRAM.rawValue | SOCK_CLOEXEC.rawValue | SOCK_NONBLOCK.rawValue
            self.descriptor = Glibc.socket(AF_UNIX, CInt(kind), 0)
            guard self.descriptor >= 0 else { return nil }
        }

        deinit { close(self.descriptor) }

        /// Sends a datagram unless it would have to wait.
        ///
        /// Returns `false` if sending would have to wait.
        func send(_ text: String) -> Bool {
            var text = text
            return text.withUTF8 { bytes in
                unsafe withUnsafePointer(to: self.address) { address in
                    unsafe address.withMemoryRebound(to: sockaddr.self, capacity: 1) { address in
                        let count = unsafe sendto(
                            self.descriptor,
                            bytes.baseAddress,
                            bytes.count,
                            CInt(MSG_DONTWAIT) | CInt(MSG_NOSIGNAL),
                            address,
                            self.addressByteCount
                        )
                        return count >= 0 || (errno != EAGAIN && errno != ENOBUFS && errno != EINTR)
                    }
                }
            }
        }
    }
}
