// SPDX-License-Identifier: Apache-2.0

import COpenSSL

/// Answers OpenSSL's request for a passphrase, and records it.
///
/// Without an answer, OpenSSL would prompt on the terminal.
final class PassphraseRequest {
    private let passphrase: TLSPassphrase?
    private(set) var wasAsked = false

    init(_ passphrase: TLSPassphrase?) {
        self.passphrase = passphrase
    }

    /// Whether OpenSSL requested a passphrase and there was none.
    var wasRefused: Bool { self.wasAsked && self.passphrase == nil }

    /// The error of a failed call, which depends on whether a passphrase was requested.
    func failure(_ queue: OpenSSLQueue) -> TLSError {
        guard self.wasAsked else { return .identityMalformed(detail: queue.text) }
        return self.passphrase == nil ? .passphraseMissing : .passphraseWrong
    }

    func withPointer<Result>(_ body: (UnsafeMutableRawPointer) -> Result) -> Result {
        // OpenSSL leaves a copy of the answer there.
        defer { shim_wipe_stack() }
        return withExtendedLifetime(self) { unsafe body(Unmanaged.passUnretained(self).toOpaque()) }
    }

    static let refuse: @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32 =
        { _, _, _, _ in -1 }

    static let answer: @convention(c) (UnsafeMutablePointer<CChar>?, Int32, Int32, UnsafeMutableRawPointer?) -> Int32 =
        { buffer, capacity, _, pointer in
            guard let buffer = unsafe buffer, let pointer = unsafe pointer else { return -1 }
            let request = unsafe Unmanaged<PassphraseRequest>.fromOpaque(pointer).takeUnretainedValue()
            request.wasAsked = true
            return unsafe request.passphrase?.bytes.withBytes { bytes in
                guard bytes.count <= Int(capacity) else { return -1 }
                unsafe UnsafeMutableRawBufferPointer(start: buffer, count: Int(capacity)).copyMemory(from: bytes)
                return Int32(bytes.count)
            } ?? -1
        }
}
