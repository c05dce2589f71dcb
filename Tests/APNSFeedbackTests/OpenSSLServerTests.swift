// SPDX-License-Identifier: Apache-2.0

import APNSFeedback
import APNSTestKit
import APNSWire
import Foundation
import OpenSSLTLS
import Testing

/// Goal: the poller reads from an independent service.
///
/// Method: `openssl s_server` sends canned tuples in records of 512 bytes, which split them anywhere, and then ends the
/// connection without close_notify. It interprets a portion that begins with certain letters as a command, so no byte
/// here is one of them. Without -nbio it may wait forever for bytes of the poller.
@Suite(.timeLimit(.minutes(1))) struct OpenSSLServerTests {
    static func tuples() throws -> [FeedbackTuple] {
        try (0..<3000).map { number in
            var bytes = [UInt8](repeating: 0xEE, count: 3 + number % 50)
            bytes[0] = 0x80 | UInt8(number >> 7)
            bytes[1] = 0x80 | UInt8(number & 127)
            return FeedbackTuple(token: try DeviceToken(bytes: bytes), failedAt: 0x80A0_B0C0)
        }
    }

    @Test(arguments: [true, false])
    func `a list from openssl s_server is read completely, and its end depends on the configuration`(
        requiresCloseNotify: Bool
    ) async throws {
        let folder = try FeedbackFolder()
        let (certificate, trust) = (folder.path + "/service.pem", folder.path + "/ca.pem")
        try Data(FeedbackFixture.service.get().pem).write(to: URL(filePath: certificate))
        try Data(FeedbackFixture.authority.get().certificatePEM).write(to: URL(filePath: trust))
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [
            "openssl", "s_server", "-accept", "127.0.0.1:0", "-cert", certificate, "-CAfile", trust, "-Verify", "2",
            "-max_send_frag", "512", "-naccept", "1", "-nbio",
        ]
        let tuples = try Self.tuples()
        let canned = URL(filePath: folder.path + "/canned")
        try Data(tuples.flatMap(\.bytes)).write(to: canned)
        process.standardInput = try FileHandle(forReadingFrom: canned)
        let output = Pipe()
        process.standardOutput = output
        process.standardError = FileHandle.nullDevice
        try process.run()
        // The tests block SIGTERM, and a child inherits that.
        defer { kill(process.processIdentifier, SIGKILL) }
        var said = ""
        while !said.contains("ACCEPT 127.0.0.1:") || said.last != "\n" {
            let data = output.fileHandleForReading.availableData
            guard !data.isEmpty else { break }
            said += String(decoding: data, as: UTF8.self)
        }
        let port = Int(said.split(separator: "ACCEPT 127.0.0.1:").last?.prefix { $0.isNumber } ?? "") ?? 0
        Thread.detachNewThread { while !output.fileHandleForReading.availableData.isEmpty {} }
        let outcome = try await folder.drain(port: port) { $0.requiresCloseNotify = requiresCloseNotify }
        let isTruncated = if case .unavailable(_, TLSError.truncated) = outcome.failure { true } else { false }
        #expect(isTruncated == requiresCloseNotify && (outcome.failure != nil) == requiresCloseNotify, "\(outcome)")
        #expect(outcome.tupleCount == 3000)
        #expect(outcome.ending?.reason == (requiresCloseNotify ? .failed : .closed))
        #expect(outcome.ending?.partialByteCount == 0)
        #expect(try folder.tokens() == Set(tuples.map(\.token.bytes)))
    }
}
