// SPDX-License-Identifier: Apache-2.0

/// A passphrase of a private key or a PKCS#12 file, which is never printed.
public struct TLSPassphrase: Sendable, Hashable {
    let bytes: [UInt8]

    /// Creates a passphrase from text, as UTF-8.
    public init(_ text: String) {
        self.bytes = Array(text.utf8)
    }

    /// Creates a passphrase from bytes.
    public init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Reads the passphrase from the first line of the file at `path`, without its line break.
    ///
    /// - Throws: ``TLSError/fileUnreadable(path:detail:)``.
    public init(contentsOf path: String) throws(TLSError) {
        self.bytes = Array(FileBytes.firstLine(of: try FileBytes.read(path, allowsNamedPipe: true)))
    }
}

extension TLSPassphrase: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// A fixed text, which does not depend on the passphrase.
    public var description: String { "<passphrase>" }

    /// A fixed text, which does not depend on the passphrase.
    public var debugDescription: String { self.description }

    /// A mirror without children, so that `dump` shows no byte.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
