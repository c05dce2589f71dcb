// SPDX-License-Identifier: Apache-2.0

import APNSPayload

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#elseif canImport(Darwin)
import Darwin
#endif

/// What of a payload decides about the kind of push.
struct PayloadTraits: Hashable {
    /// Whether it is for device management.
    var hasDeviceManagement = false
    /// Whether it says that content is available.
    var hasContentAvailable = false
    /// Whether the device shows or plays something.
    var hasAlertBadgeOrSound = false

    init() {}

    /// Looks at a payload; what cannot be read counts as not there.
    init(_ payload: UnsafeRawBufferPointer) {
        // Nearly every payload has neither word, and needs no more than this look.
        guard unsafe Self.hasTellingWord(payload) else { return }
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
            // The service refuses what is no JSON; here it only has no traits beyond those found before.
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

    /// Whether one of the words that matter stands behind a quote.
    private static func hasTellingWord(_ bytes: UnsafeRawBufferPointer) -> Bool {
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
