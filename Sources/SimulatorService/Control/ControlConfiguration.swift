// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
import NIOCore

/// The address and access rules of the control listener.
package struct ControlConfiguration: Sendable {
    /// The address to listen on.
    package var host = "127.0.0.1"

    /// The port to listen on; 0 for any free port.
    package var port = 0

    /// The access token; `nil` for none, which is permitted only on loopback addresses.
    package var token: String?

    /// Further host names of the listener, without ports.
    package var names: [String] = []

    /// The apps' localized strings for previews.
    package var strings: LocalizedStrings = [:]

    /// Creates a configuration with defaults.
    package init() {}

    /// Whether the listener is reachable only from this machine.
    package var isLoopback: Bool { HostName(self.host).isLoopback }
}

/// A host name or address, as in a URL or the `Host` header.
struct HostName: Hashable {
    /// In lower-case letters, without port and brackets.
    let text: String
    /// Whether it is an IP address.
    let isAddress: Bool

    init(_ text: some StringProtocol) {
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

    var isLoopback: Bool {
        self.text == "localhost" || self.text == "::1" || self.isAddress && self.text.hasPrefix("127.")
    }

    /// Whether it is a wildcard address.
    var isWildcard: Bool { self.text == "0.0.0.0" || self.text == "::" }
}
