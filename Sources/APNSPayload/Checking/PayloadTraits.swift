// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import Glibc

/// The parts of a payload that determine the push type.
package struct PayloadTraits: Hashable, Sendable {
    /// Whether it is for device management.
    package private(set) var hasDeviceManagement = false
    /// Whether it contains `content-available`.
    package private(set) var hasContentAvailable = false
    /// Whether the device shows or plays something.
    package private(set) var hasAlertBadgeOrSound = false
    /// Whether it contains `content-changed`, which reloads widgets or controls.
    private var hasContentChanged = false
    private var hasContentState = false
    private var hasEvent = false
    private var hasTimestamp = false

    /// Whether it is for a Live Activity.
    ///
    /// An app may have keys of its own in `aps`, so that `event` alone does not suffice.
    package var hasLiveActivity: Bool { self.hasContentState || self.hasEvent && self.hasTimestamp }

    /// Whether it does nothing but reload widgets or controls, which have different push types.
    package var isForWidgetsOrControls: Bool {
        self.hasContentChanged && !self.hasLiveActivity && !self.hasAlertBadgeOrSound && !self.hasContentAvailable
    }

    /// Examines a payload; parts that cannot be parsed are ignored.
    package init(_ payload: UnsafeRawBufferPointer) {
        // Most payloads contain none of the words, and need no more than this scan.
        guard unsafe Self.hasRelevantWord(payload) else { return }
        var scanner = unsafe JSONScanner(payload)
        do throws(ScanFailure) {
            try scanner.begin()
            guard try scanner.kind() == .object else { return }
            scanner.enter()
            var isFirst = true
            var (hasManagementKey, hasServiceKey) = (false, false)
            while let key = try scanner.nextKey(isFirst: &isFirst) {
                if unsafe Self.spells(scanner.bytes(of: key), "mdm") { hasManagementKey = true }
                if unsafe Self.spells(scanner.bytes(of: key), "aps"), try scanner.kind() == .object {
                    hasServiceKey = true
                    try self.readService(&scanner)
                } else {
                    try scanner.skipValue(enclosedBy: 1)
                }
                // Next to `aps`, it is a key of an app.
                self.hasDeviceManagement = hasManagementKey && !hasServiceKey
            }
        } catch {
            // The service refuses invalid JSON; here it only ends the scan.
        }
    }

    private mutating func readService(_ scanner: inout JSONScanner) throws(ScanFailure) {
        scanner.enter()
        var isFirst = true
        while let key = try scanner.nextKey(isFirst: &isFirst) {
            let name = unsafe scanner.bytes(of: key)
            if unsafe Self.spells(name, "alert") || Self.spells(name, "badge") || Self.spells(name, "sound") {
                self.hasAlertBadgeOrSound = true
            }
            let isTrue = scanner.next == UInt8(ascii: "1") || scanner.next == UInt8(ascii: "t")
            if unsafe Self.spells(name, "content-available") { self.hasContentAvailable = isTrue }
            if unsafe Self.spells(name, "content-changed") { self.hasContentChanged = isTrue }
            if unsafe Self.spells(name, "content-state") { self.hasContentState = true }
            if unsafe Self.spells(name, "timestamp") { self.hasTimestamp = try scanner.kind() == .number }
            if unsafe Self.spells(name, "event"), try scanner.kind() == .string {
                let event = unsafe scanner.bytes(of: try scanner.string())
                self.hasEvent =
                    unsafe Self.spells(event, "start") || Self.spells(event, "update") || Self.spells(event, "end")
            } else {
                try scanner.skipValue(enclosedBy: 2)
            }
        }
    }

    private static func spells(_ bytes: UnsafeRawBufferPointer, _ name: StaticString) -> Bool {
        bytes.count == name.utf8CodeUnitCount && name.withUTF8Buffer { unsafe bytes.elementsEqual($0) }
    }

    /// Whether one of the relevant words follows a quote.
    private static func hasRelevantWord(_ bytes: UnsafeRawBufferPointer) -> Bool {
        var rest = unsafe bytes
        while let start = rest.baseAddress, let quote = unsafe memchr(start, 0x22, rest.count) {
            unsafe rest = UnsafeRawBufferPointer(rebasing: rest[(UnsafeRawPointer(quote) - start + 1)...])
            let isFound =
                switch unsafe rest.first {
                case UInt8(ascii: "c"): unsafe Self.begins(rest, "content-")
                case UInt8(ascii: "e"): unsafe Self.begins(rest, "event\"")
                case UInt8(ascii: "m"): unsafe Self.begins(rest, "mdm\"")
                default: false
                }
            if isFound { return true }
        }
        return false
    }

    private static func begins(_ bytes: UnsafeRawBufferPointer, _ word: StaticString) -> Bool {
        bytes.count >= word.utf8CodeUnitCount && word.withUTF8Buffer { unsafe bytes.starts(with: $0) }
    }
}
