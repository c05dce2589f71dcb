// SPDX-License-Identifier: Apache-2.0

import Glibc
import NIOCore

/// A host name or address, as in a URL or the `Host` header.
package struct HostName: Hashable, Sendable {
    /// In lower-case letters, without port and brackets.
    package let text: String
    /// Whether it is an IP address.
    package let isAddress: Bool

    /// Parses a name, possibly with a port, and an address possibly in brackets.
    package init(_ text: some StringProtocol) {
        var name = Substring(text.lowercased())
        // A suffix that is not a port is part of the name.
        if name.hasPrefix("["), let end = name.firstIndex(of: "]"), Self.isPort(name[name.index(after: end)...]) {
            name = name[name.index(after: name.startIndex)..<end]
        } else if let colon = name.firstIndex(of: ":"), Self.isPort(name[colon...]) {
            name = name[..<colon]
        }
        self.text = String(name)
        self.isAddress = (try? SocketAddress(ipAddress: self.text, port: 0)) != nil
    }

    /// Whether the text is a colon and digits, or empty.
    private static func isPort(_ text: Substring) -> Bool {
        text.isEmpty
            || text.first == ":" && text.dropFirst().utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    }

    /// Whether it is this machine.
    package var isLoopback: Bool {
        self.text == "localhost" || self.text == "::1" || self.isAddress && self.text.hasPrefix("127.")
    }

    /// Whether it is a wildcard address.
    package var isWildcard: Bool { self.text == "0.0.0.0" || self.text == "::" }
}

/// The host names of an HTTP listener for people and their tools.
///
/// The `Host` header of a request has to be one of them. An attacker who resolves a name to a loopback address (DNS
/// rebinding), so that a page in the reader's browser reaches the listener, sends that name.
package struct HostNames: Sendable {
    /// The names, in lower-case letters.
    package let names: Set<String>
    /// Whether every IP address is valid; an attacker can redirect a name, but not an address.
    private let takesAddresses: Bool

    /// What adds a name, such as an option.
    private let setting: String

    /// Creates a value.
    package init(host: String, names: [String], setting: String) {
        let host = HostName(host)
        self.names = Set(["localhost", "127.0.0.1", "::1", host.text] + names.map { HostName($0).text })
        self.takesAddresses = host.isWildcard
        self.setting = setting
    }

    /// The address of a host name, and the name of this machine.
    package static func ofThisMachine(host: String) -> [String] {
        let address = (try? SocketAddress.makeAddressResolvingHost(host, port: 0))?.ipAddress
        var name = [CChar](repeating: 0, count: Int(HOST_NAME_MAX) + 1)
        guard unsafe gethostname(&name, name.count - 1) == 0 else { return address.map { [$0] } ?? [] }
        let own = String(decoding: name.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
        return [address, own].compactMap(\.self)
    }

    /// Whether a `Host` header names the listener.
    private func contains(_ authority: String) -> Bool {
        let host = HostName(authority)
        return self.names.contains(host.text) || self.takesAddresses && host.isAddress
    }

    /// Returns why a request with a `Host` header has to be answered with 421; `nil` if it does not.
    package func refusal(of authority: String) -> String? {
        guard !self.contains(authority) else { return nil }
        let names = self.names.sorted().joined(separator: ", ")
        return "unknown host name in the header Host; valid names: \(names); to add a name, use \(self.setting)"
    }
}
