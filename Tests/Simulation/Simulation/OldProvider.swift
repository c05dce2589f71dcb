// SPDX-License-Identifier: Apache-2.0

import APNSTestKit
import APNSWire
import CSimulatedKernel
import OpenSSLTLS

/// A provider like those of the years of the binary protocol: it writes frames, and some read.
struct OldProvider {
    /// What a provider learns of a connection.
    enum Result {
        /// Nothing was written.
        case unconnected
        /// An orderly end without a response.
        case complete
        /// The status, and the index of the notification that it names.
        case response(ErrorResponse.Status, Int)
        /// Anything else: it cannot know.
        case failed
        /// It did not read, and takes everything for accepted.
        case unread
    }

    /// How it reads error responses.
    enum Reading: CaseIterable {
        /// It closes its sending side, and reads to the end.
        case toTheEnd
        /// It waits for a while, then closes the connection.
        case forAWhile
        /// It writes until that fails.
        case never
    }

    /// Where it begins again after an error response.
    enum Resending: CaseIterable { case behindTheNamed, atTheNamed, atTheFirst }

    private let tls: TLSConfiguration
    private let history: History
    private let command = Chance.one(of: Command.allCases)
    /// Many count from 0.
    private let firstIdentifier = UInt32(Chance.number(0...1))
    private let writesInParts = Chance.once(in: 2)
    private let reading = Chance.one(of: [Reading.toTheEnd, .toTheEnd, .forAWhile, .never])
    private let resending = Chance.one(of: [Resending.behindTheNamed, .behindTheNamed, .atTheNamed, .atTheFirst])
    /// How often it sends a notification again that was rejected.
    private static let resendCountMax = 3
    private var resendCounts: [Int: Int] = [:]

    init(tls: TLSConfiguration, history: History) {
        self.tls = tls
        self.history = history
    }

    /// Sends notifications over a connection, closes its sending side, and reads to the end.
    mutating func send(_ numbers: [Int], port: Int) async throws -> Result {
        var frames: [[UInt8]] = []
        for (index, number) in numbers.enumerated() {
            let identifier = self.firstIdentifier + UInt32(index)
            var frame = NotificationFrame(try Row.notification(number), identifier: identifier)
            frame.command = self.command
            frames.append(try frame.bytes)
        }
        let partCount = self.writesInParts ? Chance.number(1...10) : frames.count
        var hasWritten = false
        do {
            return try await ScriptedProvider.withConnection(port: port, tls: self.tls) { provider in
                hasWritten = true
                for start in stride(from: 0, to: frames.count, by: partCount) {
                    provider.push(frames[start..<min(frames.count, start + partCount)].flatMap(\.self))
                    if Chance.once(in: 4) { try await SimulatedTime.pass(Chance.duration(0...50)) }
                }
                return try await self.read(provider, numbers.count)
            }
        } catch {
            self.history.note("a connection failed: \(error)")
            return hasWritten ? .failed : .unconnected
        }
    }

    private func read(_ provider: ScriptedProvider, _ count: Int) async throws -> Result {
        switch self.reading {
        case .toTheEnd:
            try? await provider.closeOutput()
            return self.result(try await provider.end(within: .seconds(900)), count)
        case .forAWhile:
            // It closes even if the gateway has not.
            guard let ending = try? await provider.end(within: Chance.one(of: [.milliseconds(300), .seconds(10)]))
            else {
                let bytes = provider.bytes
                self.history.note("it closes after \(bytes)")
                return bytes.isEmpty ? .unread : self.result(bytes, count)
            }
            return self.result(ending, count)
        case .never:
            try await SimulatedTime.pass(Chance.duration(0...1000))
            return .unread
        }
    }

    /// What it sends next.
    mutating func next(_ result: Result, _ part: [Int], _ pending: [Int]) -> [Int] {
        switch result {
        case .unconnected, .failed: return pending
        case .complete, .unread: return Array(pending.dropFirst(part.count))
        case .response(let status, let index):
            guard part.indices.contains(index) else { return Array(pending.dropFirst(part.count)) }
            self.resendCounts[part[index], default: 0] += 1
            let isSentAgain = self.resendCounts[part[index]] ?? 0 < Self.resendCountMax
            switch self.resending {
            case .atTheNamed where isSentAgain: return Array(pending.dropFirst(index))
            case .atTheFirst where isSentAgain: return pending
            // Before, one that the gateway could not deliver.
            case .behindTheNamed where status == .processingError && isSentAgain: return Array(pending.dropFirst(index))
            case .atTheNamed, .atTheFirst, .behindTheNamed:
                return Array(pending.dropFirst(index + 1))
            }
        }
    }

    private func result(_ bytes: [UInt8], _ count: Int) -> Result {
        guard bytes.count == 6, bytes[0] == 8 else { return .failed }
        let identifier = bytes[2...].reduce(UInt32(0)) { $0 << 8 | UInt32($1) }
        return .response(ErrorResponse.Status(rawValue: bytes[1]), Int(identifier) - Int(self.firstIdentifier))
    }

    private func result(_ ending: ScriptedProvider.Ending, _ count: Int) -> Result {
        self.history.note("a connection ended: \(ending.bytes), orderly: \(ending.hasCloseNotify)")
        guard ending.bytes.isEmpty else { return self.result(ending.bytes, count) }
        return ending.hasCloseNotify && ending.error == nil ? .complete : .failed
    }
}
