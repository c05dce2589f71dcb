// SPDX-License-Identifier: Apache-2.0

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

    /// Creates a value.
    ///
    /// - Parameters:
    ///   - host: the address that the listener has.
    ///   - names: further names, without ports.
    package init(host: String, names: [String]) {
        let host = HostName(host)
        self.names = Set(["localhost", "127.0.0.1", "::1", host.text] + names.map { HostName($0).text })
        self.takesAddresses = host.isWildcard
    }

    /// Whether a `Host` header names the listener.
    package func contains(_ authority: String) -> Bool {
        let host = HostName(authority)
        return self.names.contains(host.text) || self.takesAddresses && host.isAddress
    }
}
