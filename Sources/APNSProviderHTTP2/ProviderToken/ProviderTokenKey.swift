// SPDX-License-Identifier: Apache-2.0

public import APNSProvider
import APNSWire
public import OpenSSLTLS

/// A key that signs provider tokens, with its identifiers at the service.
///
/// - SeeAlso: "Establishing a token-based connection to APNs".
public struct ProviderTokenKey: Equatable, Sendable {
    /// The private key, which Apple provides as a .p8 file.
    public var key: ES256PrivateKey

    /// The key's identifier, 10 characters.
    public var keyID: String

    /// The team's identifier, 10 characters.
    public var teamID: String

    /// Creates a key from its parts.
    ///
    /// - Parameters:
    ///   - key: the private key.
    ///   - keyID: 10 letters and digits.
    ///   - teamID: 10 letters and digits.
    /// - Throws: `ProviderError` of kind `configuration` for invalid identifiers.
    public init(key: ES256PrivateKey, keyID: String, teamID: String) throws(ProviderError) {
        for (name, text) in [("key", keyID), ("team", teamID)] {
            guard Self.isIdentifier(text) else {
                throw .configuration("invalid \(name) identifier, expected 10 letters and digits")
            }
        }
        self.key = key
        self.keyID = keyID
        self.teamID = teamID
    }

    private static let identifierCharacterCount = 10

    /// Whether a text has the format of Apple's identifiers of keys and teams.
    package static func isIdentifier(_ text: String) -> Bool {
        text.utf8.count == Self.identifierCharacterCount
            && text.utf8.allSatisfy { (0x30...0x39).contains($0) || (0x61...0x7A).contains($0 | 0x20) }
    }

    /// Creates a provider token: a JSON Web Token (RFC 7519) signed with ES256.
    ///
    /// - Parameter issuedAt: the time of issue, of which parts of a second are omitted.
    /// - Returns: three parts in base64url, separated by dots.
    /// - Throws: `TLSError` if OpenSSL cannot sign.
    public func token(issuedAt: Timestamp) throws(TLSError) -> String {
        try self.token(issuedAt: issuedAt.secondsSince1970)
    }

    /// Creates a provider token that was issued at a time in seconds since 1970 (UTC).
    package func token(issuedAt: Int64) throws(TLSError) -> String {
        let header = #"{"alg":"ES256","kid":"\#(self.keyID)"}"#
        let claims = #"{"iss":"\#(self.teamID)","iat":\#(issuedAt)}"#
        let signed = Base64.addressText(header.utf8) + "." + Base64.addressText(claims.utf8)
        return try signed + "." + Base64.addressText(self.key.signature(of: Array(signed.utf8)))
    }
}

extension ProviderTokenKey: CustomStringConvertible, CustomReflectable {
    /// The identifiers of the key, in one line; nothing of the key itself.
    public var description: String { "key \(self.keyID) of team \(self.teamID)" }

    /// Empty, so that `dump` prints only the ``description``.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
