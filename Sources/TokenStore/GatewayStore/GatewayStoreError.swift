// SPDX-License-Identifier: Apache-2.0

/// The error of a gateway's database that cannot be used.
public struct GatewayStoreError: Error, Hashable, Sendable {
    /// The path of the file.
    public var path: String
    /// The reason.
    public var detail: String
}

extension GatewayStoreError: CustomStringConvertible {
    /// A message for people.
    public var description: String { "cannot use the feedback database \(self.path): \(self.detail)" }
}
