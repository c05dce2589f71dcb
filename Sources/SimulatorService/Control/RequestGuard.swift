// SPDX-License-Identifier: Apache-2.0

import APNSWire
import HTTPTypes

/// Finds out whether a request may be answered, by its head alone.
///
/// A page that a browser shows must not reach a simulator behind the browser's back. So the header `Host` has to name
/// the simulator: whoever leads a name of their own to a loopback address (DNS rebinding) sends that name. And
/// `Origin`, which browsers send with what changes something, has to be the address itself. What a page of another site
/// merely loads, such as an image, has no `Origin`, but `Sec-Fetch-Site`: how long an answer takes would tell that page
/// what was found.
struct RequestGuard: Sendable {
    private let names: Set<String>
    /// Whether every address stands for the simulator; an address cannot be led elsewhere, as a name can.
    private let takesAddresses: Bool
    private let token: [UInt8]?

    init(_ configuration: ControlConfiguration) {
        let host = HostName(configuration.host)
        let further = configuration.names.map { HostName($0).text }
        self.names = Set(["localhost", "127.0.0.1", "::1", host.text] + further)
        self.takesAddresses = host.isWildcard
        self.token = configuration.token.map { Array($0.utf8) }
    }

    /// Why a request is refused; `nil` where it is not.
    func refusal(_ head: HTTPRequest) -> ControlError? {
        guard let authority = head.authority, !authority.isEmpty else {
            return ControlError(.misdirectedRequest, "the header Host is missing; send the name of the simulator")
        }
        let host = HostName(authority)
        guard self.names.contains(host.text) || self.takesAddresses && host.isAddress else {
            let names = self.names.sorted().joined(separator: ", ")
            return ControlError(
                .misdirectedRequest,
                "the header Host names another host; this is \(names); add a name with --control-name"
            )
        }
        if let origin = head.headerFields[.origin], origin.lowercased() != "http://\(authority.lowercased())" {
            return ControlError(.forbidden, "the request comes from a page of another origin, which may not use this")
        }
        if Self.isFromElsewhere(head) {
            return ControlError(.forbidden, "the request comes from a page of another site, which may not use this")
        }
        guard let token = self.token else { return nil }
        guard let shown = Self.token(head.headerFields[.authorization]), Self.areEqual(shown, token) else {
            var error = ControlError(
                .unauthorized,
                "a token is required: send Authorization: Bearer with the first line of --control-token-file"
            )
            // A browser asks for it, and then sends it with each request of the page.
            error.headers[.wwwAuthenticate] = #"Basic realm="apns-legacy simulator", charset="UTF-8""#
            return error
        }
        return nil
    }

    /// Whether a page of another site asks, in whatever way a page can, but for a link to the page itself.
    private static func isFromElsewhere(_ head: HTTPRequest) -> Bool {
        switch Self.value("Sec-Fetch-Site", head) {
        case "cross-site", "same-site":
            let path = (head.path ?? "").prefix { $0 != "?" }
            return Self.value("Sec-Fetch-Mode", head) != "navigate" || path != "/"
        default: return false
        }
    }

    private static func value(_ name: String, _ head: HTTPRequest) -> String? {
        HTTPField.Name(name).flatMap { head.headerFields[$0] }?.lowercased()
    }

    /// The token of `Authorization: Bearer`, or the password of `Authorization: Basic`, as browsers send it.
    private static func token(_ header: String?) -> [UInt8]? {
        guard let header, let space = header.firstIndex(of: " ") else { return nil }
        let value = header[header.index(after: space)...].drop { $0 == " " }
        switch header[..<space].lowercased() {
        case "bearer": return Array(value.utf8)
        case "basic":
            let text = value.prefix { $0 != "=" }.replacing("+", with: "-").replacing("/", with: "_")
            guard let bytes = Base64.bytes(addressText: text), let colon = bytes.firstIndex(of: UInt8(ascii: ":"))
            else { return nil }
            return Array(bytes[(colon + 1)...])
        default: return nil
        }
    }

    /// Compares in a time that does not tell how much is equal.
    private static func areEqual(_ first: [UInt8], _ second: [UInt8]) -> Bool {
        guard first.count == second.count else { return false }
        return zip(first, second).reduce(0 as UInt8) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
