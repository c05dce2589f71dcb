// SPDX-License-Identifier: Apache-2.0

import APNSWire
import HTTPTypes
import ServiceSupport

/// Decides by its head whether a request is answered.
///
/// A web page must not reach a simulator through the reader's browser. The `Host` header has to name the simulator: see
/// ``HostNames``. `Origin`, which browsers send with changes, has to be the simulator's address. Resources that a page
/// of another site loads, such as images, have no `Origin` but `Sec-Fetch-Site`; they are refused, since response times
/// would reveal results.
struct RequestGuard: Sendable {
    private let hosts: HostNames
    private let token: [UInt8]?

    init(_ configuration: ControlConfiguration) {
        self.hosts = HostNames(
            host: configuration.host,
            names: configuration.names,
            setting: "--control-name"
        )
        self.token = configuration.token.map { Array($0.utf8) }
    }

    /// Returns why a request is refused; `nil` if it is allowed.
    func refusal(_ head: HTTPRequest) -> ControlError? {
        guard let authority = head.authority, !authority.isEmpty else {
            return ControlError(.misdirectedRequest, "missing header: Host; send the host name of the simulator")
        }
        if let sentence = self.hosts.refusal(of: authority) { return ControlError(.misdirectedRequest, sentence) }
        if let origin = head.headerFields[.origin], origin.lowercased() != "http://\(authority.lowercased())" {
            return ControlError(.forbidden, "requests from pages of another origin are not allowed")
        }
        if Self.isFromElsewhere(head) {
            return ControlError(.forbidden, "requests from pages of another site are not allowed")
        }
        guard let token = self.token else { return nil }
        guard let shown = Self.token(head.headerFields[.authorization]), Self.areEqual(shown, token) else {
            var error = ControlError(
                .unauthorized,
                "a token is required: send Authorization: Bearer with the first line of --control-token-file"
            )
            // A browser asks the reader for it, and then sends it with each request.
            error.headers[.wwwAuthenticate] = #"Basic realm="apns-legacy simulator", charset="UTF-8""#
            return error
        }
        return nil
    }

    /// Whether the request is from a page of another site, other than a link to the page itself.
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

    /// Extracts the token of `Authorization: Bearer`, or the password of `Authorization: Basic`, as browsers send it.
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

    /// Compares in constant time.
    private static func areEqual(_ first: [UInt8], _ second: [UInt8]) -> Bool {
        guard first.count == second.count else { return false }
        return zip(first, second).reduce(0 as UInt8) { $0 | ($1.0 ^ $1.1) } == 0
    }
}
