// SPDX-License-Identifier: Apache-2.0

import APNSJSON
import Glibc

/// The parts of a payload that determine the push type.
struct PayloadTraits: Hashable {
    /// Whether it is for device management.
    var hasDeviceManagement = false
    /// Whether it contains `content-available`.
    var hasContentAvailable = false
    /// Whether the device shows or plays something.
    var hasAlertBadgeOrSound = false

    init() {}

    /// Examines a payload; parts that cannot be parsed are ignored.
    init(_ payload: UnsafeRawBufferPointer) {
        // Most payloads contain neither word, and need no more than this scan.
        guard unsafe Self.hasRelevantWord(payload) else { return }
        var scanner = unsafe JSONScanner(payload)
        do throws(ScanFailure) {
            try scanner.begin()
            guard try scanner.kind() == .object else { return }
            scanner.enter()
            var isFirst = true
            while let key = try scanner.nextKey(isFirst: &isFirst) {
                if unsafe Self.spells(scanner.bytes(of: key), "mdm") { self.hasDeviceManagement = true }
                if unsafe Self.spells(scanner.bytes(of: key), "aps"), try scanner.kind() == .object {
                    try self.readService(&scanner)
                } else {
                    try scanner.skipValue(enclosedBy: 1)
                }
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
            if unsafe Self.spells(name, "content-available") {
                let byte = scanner.next
                self.hasContentAvailable = byte == UInt8(ascii: "1") || byte == UInt8(ascii: "t")
            }
            try scanner.skipValue(enclosedBy: 2)
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
            if unsafe Self.begins(rest, "content-available\"") || Self.begins(rest, "mdm\"") { return true }
        }
        return false
    }

    private static func begins(_ bytes: UnsafeRawBufferPointer, _ word: StaticString) -> Bool {
        bytes.count >= word.utf8CodeUnitCount && word.withUTF8Buffer { unsafe bytes.starts(with: $0) }
    }
}
