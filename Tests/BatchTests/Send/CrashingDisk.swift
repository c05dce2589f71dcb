// SPDX-License-Identifier: Apache-2.0

import Foundation
import Glibc
import NIOConcurrencyHelpers
import TestSupport

@testable import Batch

/// Records the operations on files, and creates states that a power failure at any point may leave.
///
/// Each sector can have any state that it had since the file was last synchronized, independently of the others; the
/// same applies to the length of the file, and to its name until the folder is synchronized.
final class CrashingDisk: Sendable {
    /// An operation, in order.
    enum Event {
        case write(String, [UInt8])
        case truncate(String, Int)
        case synchronize(String)
        case synchronizeFolder(String)
        /// Lines that were given to a connection, which a power failure does not undo.
        case give([UInt64])
    }

    private let events = NIOLockedValueBox<[Event]>([])
    /// The files after the last power failure.
    private let files: [String: [UInt8]]

    private static let sectorByteCount = 512

    /// Starts with these files, and without the other paths.
    init(paths: [String], files: [String: [UInt8]]) throws {
        self.files = files
        // New files, since the ones from before the power failure may still be open.
        for path in paths { try? FileManager.default.removeItem(atPath: path) }
        for (path, bytes) in files { try Data(bytes).write(to: URL(filePath: path)) }
    }

    var eventCount: Int { self.events.withLockedValue(\.count) }

    func record(_ event: Event) { self.events.withLockedValue { $0.append(event) } }

    var onOperation: OnFileOperation {
        { file, operation in
            switch operation {
            case .lock: break
            case .write(let bytes): self.record(.write(file.name, Array(bytes)))
            case .truncate(let byteCount): self.record(.truncate(file.name, Int(byteCount)))
            case .synchronize: self.record(.synchronize(file.name))
            case .synchronizeFolder: self.record(.synchronizeFolder(file.name))
            }
        }
    }

    /// The lines given in the first events, once for each time.
    func given(before count: Int) -> [UInt64] {
        self.events.withLockedValue { events in
            events.prefix(count).flatMap { event -> [UInt64] in
                if case .give(let lines) = event { lines } else { [] }
            }
        }
    }

    /// The state of the files if the process is killed after the first events.
    func files(ofKillAfter count: Int) -> [String: [UInt8]] {
        self.states(after: count).states.mapValues { $0.last ?? [] }
    }

    /// A possible state of the files after a power failure that follows the first events.
    func files(after count: Int, _ random: inout SplitMix64) -> [String: [UInt8]] {
        let (states, named) = self.states(after: count)
        var files: [String: [UInt8]] = [:]
        for (path, states) in states.sorted(by: { $0.key < $1.key }) {
            guard named.contains(path) || random.next() % 2 == 0 else { continue }
            files[path] = Self.mixed(states, &random)
        }
        return files
    }

    /// For each file, the states that it had since it was last synchronized; and the files whose names are on the disk.
    private func states(after count: Int) -> (states: [String: [[UInt8]]], named: Set<String>) {
        let events = self.events.withLockedValue { Array($0.prefix(count)) }
        var states = self.files.mapValues { [$0] }
        var named = Set(self.files.keys)
        for event in events {
            switch event {
            case .write(let path, let bytes): states[path, default: [[]]].append((states[path]?.last ?? []) + bytes)
            case .truncate(let path, let byteCount):
                states[path, default: [[]]].append(Array((states[path]?.last ?? []).prefix(byteCount)))
            case .synchronize(let path): states[path] = [states[path]?.last ?? []]
            case .synchronizeFolder(let path):
                named.insert(path)
                states[path, default: [[]]] += []
            case .give: break
            }
        }
        return (states, named)
    }

    private static func mixed(_ states: [[UInt8]], _ random: inout SplitMix64) -> [UInt8] {
        // Often, all or none of it is on the disk.
        let isMixed = random.next() % 4 != 0
        let length = random.next() % UInt64(states.count)
        let byteCount = states[Int(length)].count
        var bytes = [UInt8](repeating: 0, count: byteCount)
        for start in stride(from: 0, to: byteCount, by: Self.sectorByteCount) {
            let state = states[Int(isMixed ? random.next() % UInt64(states.count) : length)]
            for index in start..<max(start, min(start + Self.sectorByteCount, byteCount, state.count)) {
                bytes[index] = state[index]
            }
        }
        return bytes
    }
}
