// SPDX-License-Identifier: Apache-2.0

import APNSGateway
import APNSSession
import APNSTestKit
import APNSWire
import Foundation
import ListenerFixtures
import Logging
import TestSupport

@testable import GatewayService

/// Outcomes for tests, and the lines of a folder.
enum OutcomeScene {
    static func options(_ folder: TemporaryFolder) -> GatewayFile.Outcomes {
        var options = GatewayFile.Outcomes()
        options.folder = "\(folder.path)/outcomes"
        options.include = .all
        options.tokens = .plain
        return options
    }

    /// Opens a folder, once the last user of it is released.
    static func open(_ options: GatewayFile.Outcomes, _ lines: LogLines) async throws -> OutcomeLog {
        var log: OutcomeLog?
        try await eventually("the folder is free") {
            log = try? OutcomeLog(options, logger: lines.logger(.debug))
            return log != nil
        }
        return try OutcomeScene.unwrap(log)
    }

    private static func unwrap(_ log: OutcomeLog?) throws -> OutcomeLog {
        guard let log else { throw Overdue(description: "the folder is in use") }
        return log
    }

    static func outcome(
        _ number: Int,
        _ outcome: DeliveryOutcome = .accepted,
        _ cause: DeliveryCause = .accepted
    ) throws -> RecordedOutcome {
        RecordedOutcome(
            provider: "shop \"1\"",
            list: TokenScope(topic: "com.example.app", environment: .sandbox),
            identifier: UInt32(number),
            token: try DeviceToken(bytes: [UInt8](repeating: 0xAB, count: 32)),
            apnsID: PushIdentifier("00000000-0000-4000-8000-000000000001"),
            outcome: outcome,
            cause: cause,
            milliseconds: 1_767_607_200_123
        )
    }

    /// Records outcomes with these identifiers, and waits until they are kept.
    static func record(_ identifiers: ClosedRange<Int>, in log: OutcomeLog) async throws {
        let kept = ObservedValue(0)
        for identifier in identifiers { log.record(try Self.outcome(identifier)) { kept.change { $0 += 1 } } }
        try await kept.wait(until: { $0 == identifiers.count }) { Overdue(description: "\($0) kept") }
    }

    /// The names of the files with outcomes in a folder, in order.
    static func names(_ folder: String) throws -> [String] {
        try FileManager.default.contentsOfDirectory(atPath: folder).filter { OutcomeSegment(name: $0) != nil }.sorted()
    }

    static func path(_ folder: String, _ name: String) -> String { "\(folder)/\(name)" }

    static func bytes(_ folder: String, _ name: String) -> [UInt8] {
        Array(FileManager.default.contents(atPath: "\(folder)/\(name)") ?? Data())
    }

    /// The identifiers in all files, in order.
    static func identifiers(_ folder: String) throws -> [Int] {
        try Self.names(folder).flatMap { Self.identifiers(in: Self.bytes(folder, $0)) }
    }

    /// The identifiers in lines, or in an array of objects.
    static func identifiers(in bytes: [UInt8]) -> [Int] {
        ScriptedWebhook.identifiers(in: bytes)
    }
}
