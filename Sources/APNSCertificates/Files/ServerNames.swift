// SPDX-License-Identifier: Apache-2.0

import Glibc

/// The names in the certificates of servers.
package enum ServerNames {
    /// The names of this machine for itself.
    package static let loopback = ["localhost", "127.0.0.1", "::1"]

    /// An IPv6 address in its shortest form, as in certificates; any other name unchanged.
    static func canonical(_ name: String) -> String {
        var address = [UInt8](repeating: 0, count: 16)
        var text = [CChar](repeating: 0, count: Int(INET6_ADDRSTRLEN))
        guard unsafe inet_pton(AF_INET6, name, &address) == 1,
            unsafe inet_ntop(AF_INET6, &address, &text, socklen_t(text.count)) != nil
        else { return name }
        return String(decoding: text.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    }

    /// Whether a certificate can contain a name: a host name, whose first label may be an asterisk, or an address.
    package static func isName(_ text: String) -> Bool {
        // Large enough for both kinds of addresses.
        var address = [UInt8](repeating: 0, count: 16)
        guard unsafe inet_pton(AF_INET, text, &address) != 1, unsafe inet_pton(AF_INET6, text, &address) != 1 else {
            return true
        }
        let labels = text.split(separator: ".", omittingEmptySubsequences: false)
        // A name that ends in a number is a misspelled address.
        guard text.utf8.count <= 253, labels.last.map({ UInt64($0) == nil }) == true else { return false }
        return labels.enumerated().allSatisfy { index, label in
            if label == "*" { return index == 0 && labels.count > 1 }
            return (1...63).contains(label.utf8.count) && label.first != "-" && label.last != "-"
                && label.utf8.allSatisfy { byte in
                    byte == UInt8(ascii: "-") || byte == UInt8(ascii: "_")
                        || UInt8(ascii: "0")...UInt8(ascii: "9") ~= byte
                        || UInt8(ascii: "a")...UInt8(ascii: "z") ~= byte | 0x20
                }
        }
    }
}
