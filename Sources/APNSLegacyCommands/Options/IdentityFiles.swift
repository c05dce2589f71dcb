// SPDX-License-Identifier: Apache-2.0

import APNSCertificates
import FileSupport
import OpenSSLTLS

/// The files of a certificate and its key, and the options that name them.
struct IdentityFiles {
    let certificate: String
    let key: String?
    let passphraseFile: String?
    /// Whether the files were found in the folder of `--certificates`.
    var areFromFolder = false

    /// Loads the certificate with its key.
    ///
    /// - Throws: one line that names the option, the file and what to do.
    func load() throws(CommandFailure) -> TLSIdentity {
        var certificateBytes = try Self.read(self.certificate, "--certificate")
        defer { certificateBytes.wipe() }
        var keyBytes = try self.key.map { key throws(CommandFailure) in try Self.read(key, "--key") }
        defer { keyBytes?.wipe() }
        let passphrase = try Self.passphrase(self.passphraseFile)
        do throws(TLSError) {
            var identity = try TLSIdentity(bytes: certificateBytes, key: keyBytes, passphrase: passphrase)
            identity.path = self.certificate
            return identity
        } catch {
            let file = try? CertificateFile(bytes: certificateBytes)
            let isCertificateRead = file.map { !$0.certificates.isEmpty && $0.problem == nil } ?? false
            let text = self.text(
                error,
                FileContent(certificateBytes),
                keyBytes.map(FileContent.init),
                isCertificateRead: isCertificateRead
            )
            throw CommandFailure(.configuration, text)
        }
    }

    /// Reads the passphrase from the file of `--passphrase-file`.
    static func passphrase(_ path: String?) throws(CommandFailure) -> TLSPassphrase? {
        guard let path else { return nil }
        var bytes = try Self.read(path, "--passphrase-file", allowsNamedPipe: true)
        defer { bytes.wipe() }
        guard !bytes.isEmpty else {
            let text = "--passphrase-file \(path) is empty; write the passphrase into its first line"
            throw CommandFailure(.configuration, text)
        }
        return TLSPassphrase(firstLineOf: bytes)
    }

    /// Reads the file of an option.
    static func read(
        _ path: String,
        _ option: String,
        allowsNamedPipe: Bool = false
    ) throws(CommandFailure) -> [UInt8] {
        do throws(TLSError) {
            return try FileBytes.read(path, allowsNamedPipe: allowsNamedPipe)
        } catch {
            guard case .fileUnreadable(_, let detail) = error else { throw CommandFailure(.configuration, "\(error)") }
            throw CommandFailure(.configuration, "cannot read \(option) \(path): \(detail); check the path")
        }
    }

    /// Describes why the files cannot be used.
    private func text(
        _ error: TLSError,
        _ content: FileContent,
        _ keyContent: FileContent?,
        isCertificateRead: Bool
    ) -> String {
        let certificateOption = self.areFromFolder ? self.certificate : "--certificate \(self.certificate)"
        let keyOption = self.key.map { self.areFromFolder ? $0 : "--key \($0)" }
        if let keyOption, let keyContent, content.isKey, keyContent.isCertificate {
            return "\(certificateOption) is a private key and \(keyOption) is a certificate; swap the two files"
        }
        if let mistake = content.mistake {
            return "\(certificateOption) \(mistake); \(Self.advice(content, self.certificate))"
        }
        if content.isKey {
            if self.areFromFolder {
                return "\(certificateOption) is a private key without a certificate; name it NAME.key.pem, beside its "
                    + "certificate NAME.pem, or remove it from the folder"
            }
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
        var names = TLSErrorNames()
        let isKeyDamaged = error.isMalformed && keyContent != nil && isCertificateRead
        names.files = .init(
            certificate: isKeyDamaged ? keyOption ?? certificateOption : certificateOption,
            key: keyOption ?? certificateOption,
            passphrase: "the passphrase in --passphrase-file \(self.passphraseFile ?? "")"
        )
        let advice: String? =
            switch error {
            case .passphraseMissing: "add --passphrase-file FILE, with the passphrase in the file's first line"
            case .keyMissing where content == .certificateWithoutPEM && keyOption == nil:
                "export both together from Keychain Access as .p12, or add --key FILE"
            case .keyMissing where self.areFromFolder:
                "append the key to the file, or put it beside the file as NAME.key.pem"
            case .keyMissing: "add --key FILE, or give a .p12 file with certificate and key"
            case .identityMalformed: "export it again"
            default: error.advice(names)
            }
        return advice.map { "\(error.fact(names)); \($0)" } ?? error.fact(names)
    }

    /// Checks the file of `--trust`, as far as its content shows a mistake.
    ///
    /// - Throws: one line that names the option, the file and what to do.
    static func checkTrust(_ path: String) throws(CommandFailure) {
        let content = FileContent(try Self.read(path, "--trust"))
        let mistake: String? =
            switch content {
            case .certificate, .certificateAndKey: nil
            case .privateKey, .encryptedPrivateKey: "is a private key"
            case .certificateWithoutPEM: "is a certificate, but not in PEM"
            case .pkcs12: "is a .p12 file"
            case .pkcs7: "is a PKCS#7 file"
            default: content.mistake ?? "contains no PEM certificate"
            }
        guard let mistake else { return }
        let advice =
            content == .certificateWithoutPEM
            ? "convert it: openssl x509 -inform DER -in \(path) -out \(path).pem"
            : "give a PEM file with the certificate of the authority that issued the server's certificate"
        throw CommandFailure(.configuration, "--trust \(path) \(mistake); \(advice)")
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

extension TLSError {
    fileprivate var isMalformed: Bool { if case .identityMalformed = self { true } else { false } }
}
