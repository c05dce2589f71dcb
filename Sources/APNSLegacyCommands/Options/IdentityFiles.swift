// SPDX-License-Identifier: Apache-2.0

import OpenSSLTLS

/// The files of a certificate and its key, and the options that name them.
struct IdentityFiles {
    let certificate: String
    let key: String?
    let passphraseFile: String?

    /// Loads the certificate with its key.
    ///
    /// - Throws: one line that names the option, the file and what to do.
    func load() throws(CommandFailure) -> TLSIdentity {
        let certificateBytes = try Self.read(self.certificate, "--certificate")
        let keyBytes: [UInt8]?
        if let key = self.key { keyBytes = try Self.read(key, "--key") } else { keyBytes = nil }
        let passphrase = try Self.passphrase(self.passphraseFile)
        do throws(TLSError) {
            var identity = try TLSIdentity(bytes: certificateBytes, key: keyBytes, passphrase: passphrase)
            identity.path = self.certificate
            return identity
        } catch {
            let text = self.text(error, FileContent(certificateBytes), keyBytes.map(FileContent.init))
            throw CommandFailure(.configuration, text)
        }
    }

    /// Reads the passphrase from the file of `--passphrase-file`.
    static func passphrase(_ path: String?) throws(CommandFailure) -> TLSPassphrase? {
        guard let path else { return nil }
        let bytes = try Self.read(path, "--passphrase-file")
        guard !bytes.isEmpty else {
            let text = "--passphrase-file \(path) is empty; write the passphrase into its first line"
            throw CommandFailure(.configuration, text)
        }
        return TLSPassphrase(bytes: Array(FileBytes.firstLine(of: bytes)))
    }

    /// Reads the file of an option.
    static func read(_ path: String, _ option: String) throws(CommandFailure) -> [UInt8] {
        do throws(TLSError) {
            return try FileBytes.read(path)
        } catch {
            guard case .fileUnreadable(_, let detail) = error else { throw CommandFailure(.configuration, "\(error)") }
            throw CommandFailure(.configuration, "cannot read \(option) \(path): \(detail); check the path")
        }
    }

    /// Describes why the files cannot be used.
    private func text(_ error: TLSError, _ content: FileContent, _ keyContent: FileContent?) -> String {
        let certificateOption = "--certificate \(self.certificate)"
        let keyOption = self.key.map { "--key \($0)" }
        if let keyOption, let keyContent, content.isKey, keyContent.isCertificate {
            return "\(certificateOption) is a private key and \(keyOption) is a certificate; swap the two files"
        }
        if let mistake = content.mistake {
            return "\(certificateOption) \(mistake); \(Self.advice(content, self.certificate))"
        }
        if content.isKey {
            guard self.certificate.hasSuffix(".p8") else {
                return "\(certificateOption) is a private key without a certificate; give the certificate's file, and "
                    + "this one with --key"
            }
            return "\(certificateOption) is a key for provider tokens, not a certificate; use --transport http2 "
                + "--p8-key \(self.certificate) --key-id ID --team-id ID --topic BUNDLE-ID"
        }
        if let keyOption, let keyContent {
            if let mistake = keyContent.mistake { return "\(keyOption) \(mistake); give the private key's file" }
            if keyContent.isCertificate {
                return "\(keyOption) is a certificate without a private key; give the private key's file"
            }
        }
        let keyFile = keyOption ?? certificateOption
        return switch error {
        case .passphraseMissing:
            "\(keyFile) is encrypted; add --passphrase-file FILE, with the passphrase in the file's first line"
        case .passphraseWrong:
            "the passphrase in --passphrase-file \(self.passphraseFile ?? "") does not decrypt \(keyFile); give the "
                + "one that was chosen when the file was exported"
        case .keyMissing where content == .certificateWithoutPEM && keyOption == nil:
            "\(certificateOption) is a certificate without its private key; export both together from Keychain Access "
                + "as .p12, or add --key FILE"
        case .keyMissing:
            "\(keyFile) contains no private key; add --key FILE, or give a .p12 file with certificate and key"
        case .keyMismatch:
            "\(keyOption ?? "the key in \(certificateOption)") does not belong to \(certificateOption); give the key "
                + "that the certificate was requested with"
        case .certificateMissing: "\(certificateOption) contains no certificate; give a PEM or .p12 file"
        case .identityMalformed:
            "\(keyContent == nil || content == .other ? certificateOption : keyFile) is not PEM, PKCS#12 or DER, or is "
                + "damaged; export it again"
        default: "\(keyFile): \(error)"
        }
    }

    /// What to do about a file of the wrong kind.
    private static func advice(_ content: FileContent, _ path: String) -> String {
        switch content {
        case .htmlPage: "log in and download the certificate again"
        case .javaKeystore:
            "convert it: keytool -importkeystore -srckeystore \(path) -destkeystore \(path).p12 -deststoretype PKCS12"
        case .certificateRequest: "give the certificate that the authority issued for it"
        default: "give a PEM or .p12 file with the certificate"
        }
    }
}
