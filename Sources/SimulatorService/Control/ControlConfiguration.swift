// SPDX-License-Identifier: Apache-2.0

package import APNSPayload
import NIOCore

/// Where the control listener is, and who may use it.
package struct ControlConfiguration: Sendable {
    /// The address to listen on.
    package var host = "127.0.0.1"

    /// The port to listen on; 0 for any that is free.
    package var port = 0

    /// What a request has to show; `nil` for nothing, which is for loopback addresses alone.
    package var token: String?

    /// Further names by which it is reached, without ports.
    package var names: [String] = []

    /// The texts that the apps have in the language of their readers, for previews.
    package var strings: LocalizedStrings = [:]

    /// Makes a configuration with the defaults.
    package init() {}

    /// Whether only programs on this machine reach it.
    package var isLoopback: Bool { HostName(self.host).isLoopback }
}

/// The name or address of a host, as a URL or the header `Host` has it.
struct HostName: Hashable {
    /// In lower-case letters, without port and brackets.
    let text: String
    /// Whether it is an IP address.
    let isAddress: Bool

    init(_ text: some StringProtocol) {
        var name = Substring(text.lowercased())
        // What else follows is no port, so that the whole is another name.
        if name.hasPrefix("["), let end = name.firstIndex(of: "]"), Self.isPort(name[name.index(after: end)...]) {
            name = name[name.index(after: name.startIndex)..<end]
        } else if let colon = name.firstIndex(of: ":"), Self.isPort(name[colon...]) {
            name = name[..<colon]
        }
        self.text = String(name)
        self.isAddress = (try? SocketAddress(ipAddress: self.text, port: 0)) != nil
    }

    /// Whether this is a colon and digits, or nothing.
    private static func isPort(_ text: Substring) -> Bool {
        text.isEmpty
            || text.first == ":" && text.dropFirst().utf8.allSatisfy { UInt8(ascii: "0")...UInt8(ascii: "9") ~= $0 }
    }

    var isLoopback: Bool {
        self.text == "localhost" || self.text == "::1" || self.isAddress && self.text.hasPrefix("127.")
    }

    /// Whether it stands for each address of the machine.
    var isWildcard: Bool { self.text == "0.0.0.0" || self.text == "::" }
}
