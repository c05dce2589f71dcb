// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import Foundation
import TestSupport
import Testing

/// Goal: a gateway and a simulator report their states to systemd by sd_notify(3) when they are reached.
@Suite(.timeLimit(.minutes(3))) struct GatewayServiceManagerTests {
    /// Execs a program with these variables, so that the watchdog is for this process.
    private static func launcher(_ socket: String) -> [String] {
        let script = "export NOTIFY_SOCKET=$0 WATCHDOG_USEC=100000 WATCHDOG_PID=$$; exec \"$@\""
        return ["/bin/sh", "-c", script, socket]
    }

    @Test func `a gateway reports its start, its watchdog, each reload and its end`() async throws {
        let folder = try GatewayProgram.Folder()
        let socket = try NotifySocket(folder.path("notify"))
        try await GatewayUpstream().run(folder) { port in
            try folder.configure(upstreamPort: port, limits: "{shutdown: 7s}")
            let gateway = try await GatewayProgram(folder, launcher: Self.launcher(folder.path("notify")))
            let addresses =
                "Listening: gateway 127.0.0.1:\(gateway.port), feedback 127.0.0.1:\(gateway.feedbackPort), "
                + "admin 127.0.0.1:\(gateway.adminPort)"
            #expect(try await socket.next("READY=1") == "READY=1\nSTATUS=\(addresses)\n")
            for _ in 0..<3 { #expect(try await socket.next() == "WATCHDOG=1\n") }

            gateway.child.send(SIGHUP)
            let reloading = try await socket.next("RELOADING=1")
            #expect(reloading.contains(#/^RELOADING=1\nMONOTONIC_USEC=\d+\nSTATUS=.+\n$/#), "\(reloading)")
            let reread = "READY=1\nSTATUS=\(addresses); configuration reloaded\n"
            #expect(try await socket.next("READY=1") == reread)

            try folder.write("server.pem", Array("none".utf8))
            gateway.child.send(SIGHUP)
            _ = try await socket.next("RELOADING=1")
            let failed = try await socket.next("READY=1")
            let status = "READY=1\nSTATUS=\(addresses); configuration reloaded, except: server: "
            #expect(failed.hasPrefix(status), "\(failed)")
            try folder.write("gateway.yaml", Array("none".utf8))
            gateway.child.send(SIGHUP)
            _ = try await socket.next("RELOADING=1")
            let unread = try await socket.next("READY=1")
            #expect(unread.hasPrefix("READY=1\nSTATUS=\(addresses); configuration not reloaded: "), "\(unread)")
            #expect(failed.split(separator: "\n").count == 2, "A status is one line.")

            #expect(try await gateway.end().code == 0)
            let stopping = try await socket.next("STOPPING=1")
            #expect(stopping.hasPrefix("STOPPING=1\nEXTEND_TIMEOUT_USEC=8000000\nSTATUS="), "\(stopping)")
        }
    }

    @Test func `a simulator reports its start, its watchdog and its end, to an abstract address`() async throws {
        let folder = try TemporaryFolder()
        let name = "@apns-legacy-\(UUID().uuidString)"
        let socket = try NotifySocket(name)
        let words = Self.launcher(name) + [try Child.program, "simulator", "--key-type", "ec", "--folder", folder.path]
        let log = folder.path + "/log"
        let (child, _) = try await Child.start(Array(words.dropFirst()), program: words[0], log: log)
        defer { child.send(SIGKILL) }
        #expect(try await socket.next("READY=1").hasPrefix("READY=1\nSTATUS=Listening: gateway port "))
        for _ in 0..<2 { #expect(try await socket.next() == "WATCHDOG=1\n") }
        child.send(SIGTERM)
        #expect(try await socket.next("STOPPING=1").contains("\nEXTEND_TIMEOUT_USEC="))
        #expect(try await child.end().code == 0)
    }

    @Test func `a gateway that cannot start never reports that it is ready`() async throws {
        let folder = try GatewayProgram.Folder()
        let socket = try NotifySocket(folder.path("notify"))
        let launcher = Self.launcher(folder.path("notify"))
        // The port for feedback is in use.
        try await GatewayUpstream().run(folder) { port in
            try folder.configure(upstreamPort: port, listen: "{port: 0, feedbackPort: \(port)}")
            await #expect(throws: (any Error).self) { try await GatewayProgram(folder, launcher: launcher) }
        }
        while let message = socket.read() { #expect(message == "WATCHDOG=1\n") }
    }
}
