// SPDX-License-Identifier: Apache-2.0

import FileSupport

/// A passphrase of a private key or a PKCS#12 file, which is never printed.
///
/// Its memory is overwritten when the last copy is gone; not the text or the bytes that it was created from, and not
/// each copy that OpenSSL makes.
public struct TLSPassphrase: Sendable, Hashable {
    let bytes: SecretBytes

    /// Creates a passphrase from text, as UTF-8.
    public init(_ text: String) {
        self.bytes = SecretBytes(text.utf8)
    }

    /// Creates a passphrase from bytes.
    public init(bytes: [UInt8]) {
        self.bytes = SecretBytes(bytes)
    }

    /// Reads the passphrase from the first line of the file at `path`, without its line break.
    ///
    /// - Throws: ``TLSError/fileUnreadable(path:detail:)``.
    public init(contentsOf path: String) throws(TLSError) {
        var bytes = try FileBytes.read(path, allowsNamedPipe: true)
        defer { bytes.wipe() }
        self.init(firstLineOf: bytes)
    }

    /// Takes the passphrase from the first line of a file's bytes.
    package init(firstLineOf bytes: [UInt8]) {
        self.bytes = SecretBytes(FileBytes.firstLine(of: bytes))
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
