// SPDX-License-Identifier: Apache-2.0

import Foundation
import NIOConcurrencyHelpers
import NIOCore
import NIOPosix
import TestSupport
import Testing

@testable import ServiceSupport

/// Goal: the service manager receives the messages of sd_notify(3), and failures are ignored.
@Suite(.timeLimit(.minutes(1))) struct ServiceManagerTests {
    @Test(arguments: ["path", "@abstract"]) func `each state is one message, to a path or an abstract name`(
        _ kind: String
    ) throws {
        let folder = try TemporaryFolder()
        let name = kind == "path" ? folder.path + "/notify" : "@apns-legacy-\(UUID().uuidString)"
        let socket = try NotifySocket(name)
        let manager = ServiceManager(["NOTIFY_SOCKET": name])
        manager.report(.ready(status: "Listening\nhere"))
        #expect(socket.read() == "READY=1\nSTATUS=Listening here\n")
        manager.report(.reloading(status: "Reading"))
        let words = try #require(socket.read()).split { $0.isNewline }
        #expect(words.first == "RELOADING=1" && words.last == "STATUS=Reading" && words.count == 3)
        let time = try #require(words[1].wholeMatch(of: #/MONOTONIC_USEC=(\d+)/#)?.1)
        // systemd and NIO use the same clock.
        let now = NIODeadline.now().uptimeNanoseconds / 1000
        let age = try #require(UInt64(time)).distance(to: now)
        #expect((0..<60_000_000).contains(age))
        manager.report(.stopping(status: "Ending", durationMax: .milliseconds(31_500)))
        #expect(socket.read() == "STOPPING=1\nEXTEND_TIMEOUT_USEC=31500000\nSTATUS=Ending\n")
        manager.report(.watchdog)
        #expect(socket.read() == "WATCHDOG=1\n")
        #expect(socket.read() == nil)
    }

    @Test(arguments: [[:], ["NOTIFY_SOCKET": ""], ["NOTIFY_SOCKET": "@"], ["NOTIFY_SOCKET": "vsock:2:1"]])
    func `without a usable socket nothing is sent, and nothing fails`(_ variables: [String: String]) {
        let manager = ServiceManager(variables.merging(["WATCHDOG_USEC": "1000000"]) { old, _ in old })
        #expect(manager.watchdogTimeout == nil)
        manager.report(.ready(status: ""))
    }

    @Test func `a socket that is not read, does not exist or has too long a name blocks nothing`() throws {
        let folder = try TemporaryFolder()
        let name = folder.path + "/notify"
        let manager = ServiceManager(["NOTIFY_SOCKET": name])
        manager.report(.ready(status: "nobody is there yet"))
        var socket: NotifySocket? = try NotifySocket(name)
        for _ in 0..<10_000 { manager.report(.watchdog) }
        #expect(socket?.read() == "WATCHDOG=1\n")
        socket = nil
        manager.report(.watchdog)
        ServiceManager(["NOTIFY_SOCKET": "/" + String(repeating: "x", count: 200)]).report(.watchdog)
    }

    @Test func `if the service manager is busy, the last state is sent later`() async throws {
        let name = "@apns-legacy-\(UUID().uuidString)"
        let socket = try NotifySocket(name)
        let manager = ServiceManager(["NOTIFY_SOCKET": name])
        for _ in 0..<10_000 { manager.report(.watchdog) }
        manager.report(.reloading(status: "before"))
        manager.report(.ready(status: "last"))
        #expect(try await socket.next("READY=1") == "READY=1\nSTATUS=last\n")
        manager.report(.watchdog)
        #expect(socket.read() == "WATCHDOG=1\n")
    }

    @Test func `a watchdog applies only to the process that it names`() {
        let variables = ["NOTIFY_SOCKET": "/nowhere", "WATCHDOG_USEC": "3000000"]
        func timeout(_ others: [String: String]) -> Duration? {
            let all = variables.merging(others) { _, new in new }
            return ServiceManager(all, processIdentifier: 17).watchdogTimeout
        }
        #expect(timeout([:]) == .seconds(3))
        #expect(timeout(["WATCHDOG_PID": "17"]) == .seconds(3))
        #expect(timeout(["WATCHDOG_PID": "18"]) == nil)
        for text in ["0", "-1", "", "soon"] { #expect(timeout(["WATCHDOG_USEC": text]) == nil) }
    }

    // MARK: The watchdog

    @Test func `an event loop that hangs stops the watchdog messages until it continues`() async throws {
        let name = "@apns-legacy-\(UUID().uuidString)"
        let socket = try NotifySocket(name)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 3)
        let watchdog = Watchdog(ServiceManager(["NOTIFY_SOCKET": name]), group: group)
        watchdog.beginRound()
        #expect(try await socket.next() == "WATCHDOG=1\n")
        let loops = Array(group.makeIterator())
        for hanging in loops.indices {
            let gate = DispatchSemaphore(value: 0)
            let isHanging = loops[hanging].submit { gate.wait() }
            for _ in 0..<5 {
                watchdog.beginRound()
                // The others have completed their checks at this point.
                for index in loops.indices where index != hanging { try await loops[index].submit {}.get() }
            }
            #expect(socket.read() == nil, "loop \(hanging)")
            gate.signal()
            try await isHanging.get()
            #expect(try await socket.next() == "WATCHDOG=1\n")
            #expect(socket.read() == nil, "There is one round at a time.")
        }
        try await group.shutdownGracefully()
    }

    @Test func `a delivery that makes no progress stops the watchdog messages until it does`() async throws {
        let name = "@apns-legacy-\(UUID().uuidString)"
        let socket = try NotifySocket(name)
        let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
        let isWorking = NIOLockedValueBox(true)
        let watchdog = Watchdog(ServiceManager(["NOTIFY_SOCKET": name]), group: group) {
            isWorking.withLockedValue { $0 }
        }
        for isMoving in [true, false, false, true] {
            isWorking.withLockedValue { $0 = isMoving }
            watchdog.beginRound()
            // The check is complete when the event loop has run the following tasks.
            for _ in 0..<3 { try await group.any().submit {}.get() }
            #expect(socket.read() == (isMoving ? "WATCHDOG=1\n" : nil))
        }
        try await group.shutdownGracefully()
    }

    @Test func `checks repeat within the watchdog timeout, and end with the body`()
        async throws
    {
        let name = "@apns-legacy-\(UUID().uuidString)"
        let socket = try NotifySocket(name)
        let manager = ServiceManager(["NOTIFY_SOCKET": name, "WATCHDOG_USEC": "20000"])
        try await Watchdog(manager).whileRunning { () async throws in
            for _ in 0..<5 { #expect(try await socket.next() == "WATCHDOG=1\n") }
        }
    }
}
