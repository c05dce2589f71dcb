// SPDX-License-Identifier: Apache-2.0

/// Why the database of a gateway cannot be used.
public struct GatewayStoreError: Error, Hashable, Sendable {
    /// The file.
    public var path: String
    /// What happened.
    public var detail: String
}

extension GatewayStoreError: CustomStringConvertible {
    /// A sentence for people.
    public var description: String { "the feedback database \(self.path) cannot be used: \(self.detail)" }
}
