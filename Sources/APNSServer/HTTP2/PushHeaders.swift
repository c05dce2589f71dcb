// SPDX-License-Identifier: Apache-2.0

import NIOHPACK

/// The headers of a request to the HTTP/2 provider API, in order of arrival.
///
/// The value of `authorization` is secret and omitted.
public struct PushHeaders: Sendable {
    /// A name in lower-case letters, and its value.
    public typealias Element = (name: String, value: String)

    private let headers: HPACKHeaders

    init(_ headers: HPACKHeaders) { self.headers = headers }
}

extension PushHeaders: Collection {
    /// The position of the first header.
    public var startIndex: Int { 0 }

    /// The position after the last header.
    public var endIndex: Int { self.headers.count }

    /// The position after another.
    public func index(after index: Int) -> Int { index + 1 }

    /// A header; one with credentials has an empty value.
    public subscript(_ index: Int) -> Element {
        let (name, value, _) = self.headers[self.headers.index(self.headers.startIndex, offsetBy: index)]
        return (name, Self.isSecret(name) ? "" : value)
    }

    /// The value of the first header with a name in lower-case letters: empty for one with credentials, `nil` if there
    /// is none.
    public subscript(_ name: String) -> String? { self.first { $0.name == name }?.value }

    private static let secrets = ["authorization", "proxy-authorization", "cookie"]

    private static func isSecret(_ name: String) -> Bool {
        // Most names have another length, and are not converted to lower case.
        self.secrets.contains { $0.utf8.count == name.utf8.count && $0 == name.lowercased() }
    }
}

extension PushHeaders: CustomStringConvertible, CustomReflectable {
    /// The number of headers, since their values are private data.
    public var description: String { "\(self.count) headers" }

    /// Without headers.
    public var customMirror: Mirror { Mirror(self, children: ["count": self.count]) }
}
