// SPDX-License-Identifier: Apache-2.0

// Reads a push certificate in several file formats, and prints its topic, environments and validity.
// Argument: a folder with such files; certs-example by default.

import Glibc

let folder = CommandLine.arguments.count > 1 ? CommandLine.arguments[1] : "certs-example"
let status = chdir(folder)
precondition(status == 0, "the folder cannot be entered")

// snippet.pem
import APNSProvider

let pem = try TLSIdentity(contentsOf: "provider.pem", key: "provider.key.pem")
// snippet.end

// snippet.pkcs12
let passphrase = try TLSPassphrase(contentsOf: "passphrase.txt")
let file = try TLSIdentity(contentsOf: "provider.p12", passphrase: passphrase)
let old = try TLSIdentity(contentsOf: "provider-legacy.p12", passphrase: passphrase)
// snippet.end
print("the same certificate: \(pem.certificate == file.certificate && file.certificate == old.certificate)")

// snippet.facts
let provider = ProviderIdentity(file.certificate)
print("for \(provider.topic ?? "no app"), sandbox: \(provider.isForSandbox), production: \(provider.isForProduction)")

let monthAhead = Int64(time(nil)) + 30 * 86_400
print("renew it: \(file.certificate.isExpired(at: monthAhead))")
// snippet.end

// snippet.errors
do throws(TLSError) {
    _ = try TLSIdentity(contentsOf: "provider.p12", passphrase: TLSPassphrase("a guess"))
} catch {
    print(error)
}
// snippet.end
