// SPDX-License-Identifier: Apache-2.0

import NIOHPACK

/// The headers of a request to the HTTP/2 provider API, in the order in which they came.
///
/// The value of `authorization` is a secret, and is left out.
public struct PushHeaders: Sendable {
    /// What it is made of: a name in lower-case letters, and its value.
    public typealias Element = (name: String, value: String)

    private let headers: HPACKHeaders

    init(_ headers: HPACKHeaders) { self.headers = headers }
}

extension PushHeaders: Collection {
    /// The place of the first one.
    public var startIndex: Int { 0 }

    /// The place behind the last one.
    public var endIndex: Int { self.headers.count }

    /// The place behind another.
    public func index(after index: Int) -> Int { index + 1 }

    /// A header; one that bears credentials has an empty value.
    public subscript(_ index: Int) -> Element {
        let (name, value, _) = self.headers[self.headers.index(self.headers.startIndex, offsetBy: index)]
        return (name, Self.isSecret(name) ? "" : value)
    }

    /// The value of the first header of a name in lower-case letters; empty for one that bears credentials, `nil` for
    /// none.
    public subscript(_ name: String) -> String? { self.first { $0.name == name }?.value }

    private static let secrets = ["authorization", "proxy-authorization", "cookie"]

    private static func isSecret(_ name: String) -> Bool {
        // Most names are of another length, and need no copy in lower case.
        self.secrets.contains { $0.utf8.count == name.utf8.count && $0 == name.lowercased() }
    }
}

extension PushHeaders: CustomStringConvertible, CustomReflectable {
    /// How many there are; their values are private data.
    public var description: String { "\(self.count) headers" }

    /// None of them.
    public var customMirror: Mirror { Mirror(self, children: ["count": self.count]) }
}
