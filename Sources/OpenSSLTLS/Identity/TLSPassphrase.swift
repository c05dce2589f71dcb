// SPDX-License-Identifier: Apache-2.0

/// A passphrase of a private key or a PKCS#12 file; printing it shows nothing of it.
public struct TLSPassphrase: Sendable, Hashable {
    let bytes: [UInt8]

    /// Takes the passphrase as text, which is used as UTF-8.
    public init(_ text: String) {
        self.bytes = Array(text.utf8)
    }

    /// Takes the passphrase as bytes.
    public init(bytes: [UInt8]) {
        self.bytes = bytes
    }

    /// Reads the passphrase from the first line of the file at `path`, without its line end.
    ///
    /// - Throws: ``TLSError/fileUnreadable(path:detail:)``.
    public init(contentsOf path: String) throws(TLSError) {
        self.bytes = Array(FileBytes.firstLine(of: try FileBytes.read(path)))
    }
}

extension TLSPassphrase: CustomStringConvertible, CustomDebugStringConvertible, CustomReflectable {
    /// Always the same text, whatever the passphrase.
    public var description: String { "<passphrase>" }

    /// Always the same text, whatever the passphrase.
    public var debugDescription: String { self.description }

    /// A mirror without children, so that `dump` shows no byte.
    public var customMirror: Mirror { Mirror(self, children: [:]) }
}
