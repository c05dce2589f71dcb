// SPDX-License-Identifier: Apache-2.0

extension MistakeTests {
    /// The mistakes of the table, in its order.
    ///
    /// In a command line, `{to}` stands for the options of a connection that works, `{id}` for those of a certificate
    /// that works, and `{port}` for the port of the server.
    static let mistakes = [usage, hosts, ports, proxies, certificates, keys, files, deadTokens, configurations].flatMap(
        \.self
    )

    private static let once = "--give-up-after 1"

    private static let usage: [Mistake] = [
        Mistake("A misspelled command", "sned batch.jsonl"),
        Mistake("Help for a misspelled command", "help sned"),
        Mistake("A misspelled part of a command", "purge aply"),
        Mistake("The version, asked for as in other programs", "-V"),
        Mistake("A misspelled option", "send batch.jsonl --host localhost --prot 2195"),
        Mistake(
            "A topic that is no bundle identifier",
            "send batch.jsonl --transport http2 {to} --topic com.example.*"
        ),
        Mistake("A port that is not a number", "send batch.jsonl --host localhost --port http"),
    ]

    private static let hosts: [Mistake] = [
        Mistake("No gateway is given", "send batch.jsonl {id}"),
        Mistake("A port in the host", "send batch.jsonl --host localhost:2195 {id}"),
        Mistake("A colon behind the host", "send batch.jsonl --host localhost: {id}"),
        Mistake("A URL as host", "send batch.jsonl --host https://gateway.example.com:2195/ {id}"),
        Mistake("An IPv6 address in brackets", "send batch.jsonl --host [::1] --port 2195 {id}"),
        Mistake("Apple's binary gateway", "send batch.jsonl --host gateway.push.apple.com {id}"),
        Mistake(
            "Apple's binary gateway, with a final period",
            "send batch.jsonl --host gateway.push.apple.com. {id}"
        ),
        Mistake("Apple's binary gateway, by its environment", "send batch.jsonl --environment sandbox {id}"),
        Mistake(
            "Apple's feedback service",
            "feedback --host feedback.push.apple.com --certificate provider.pem --purge-list purge.db"
        ),
        Mistake("Apple's HTTP/2 service, without --transport", "send batch.jsonl --host api.push.apple.com {id}"),
        Mistake("A misspelled host name", "send batch.jsonl --host gateway.invalid {id} \(once)"),
        Mistake("No gateway runs there", "send batch.jsonl {to} \(once)"),
        Mistake(
            "No feedback service runs there",
            "feedback {to} --purge-list purge.db"
        ),
    ]

    private static let ports: [Mistake] = [
        Mistake("The port of a web server", "send batch.jsonl {to}", .answers("HTTP/1.1 400 Bad Request\r\n\r\n")),
        Mistake("The port of an SSH server", "send batch.jsonl {to}", .greets("SSH-2.0-OpenSSH_9.2p1\r\n")),
        Mistake("The port of a mail server", "send batch.jsonl {to}", .greets("220 mail.example.com ESMTP\r\n")),
        Mistake("A port without TLS that waits", "send batch.jsonl {to} \(once)", .silent),
        Mistake("A server that closes before TLS", "send batch.jsonl {to} \(once)", .closes),
        Mistake("An HTTP/2 port without --transport http2", "send batch.jsonl {to}", .http2),
        Mistake("A feedback port for sending", "send batch.jsonl {to}", .feedback),
        Mistake("A feedback port without dead tokens for sending", "send one.jsonl {to}", .emptyFeedback),
        Mistake(
            "A feedback port, with at-most-once",
            "send one.jsonl {to} --delivery at-most-once",
            .emptyFeedback
        ),
        Mistake("A binary port with --transport http2", "send batch.jsonl --transport http2 {to} \(once)", .gateway),
        Mistake(
            "A feedback port with --transport http2",
            "send batch.jsonl --transport http2 {to} \(once)",
            .emptyFeedback
        ),
        Mistake("A binary port for feedback", "feedback {to} --purge-list purge.db", .gateway),
        Mistake("An HTTP/2 port for feedback", "feedback {to} --purge-list purge.db", .http2),
        Mistake(
            "A TLS server of another protocol",
            "send batch.jsonl {to}",
            .sends(Array("HTTP/1.1 400 Bad Request\r\n\r\n".utf8))
        ),
        Mistake("A gateway that refuses without an error", "send batch.jsonl {to}", .closesAfterHandshake),
    ]

    private static let proxies: [Mistake] = [
        Mistake(
            "A proxy that is not one",
            "send batch.jsonl --proxy http://localhost:{port} --host gateway.example.com {id} \(once)",
            .greets("SSH-2.0-OpenSSH_9.2p1\r\n")
        ),
        Mistake(
            "A proxy that refuses the port",
            "send batch.jsonl --proxy http://localhost:{port} --host gateway.example.com {id} \(once)",
            .answers("HTTP/1.1 403 Forbidden\r\nContent-Length: 0\r\n\r\n")
        ),
        Mistake(
            "A proxy that requires a password",
            "send batch.jsonl --proxy http://localhost:{port} --host gateway.example.com {id}",
            .answers("HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
        ),
        Mistake(
            "No proxy runs there",
            "send batch.jsonl --proxy http://localhost:{port} --host gateway.example.com {id} \(once)"
        ),
    ]

    private static let certificates: [Mistake] = [
        Mistake(
            "No --trust for a private authority",
            "send batch.jsonl --host localhost --port {port} --certificate provider.pem",
            .gateway
        ),
        Mistake(
            "The wrong authority in --trust",
            "send batch.jsonl --host localhost --port {port} --certificate provider.pem --trust other-ca.pem",
            .gateway
        ),
        Mistake("A --trust file that is no certificate", "send batch.jsonl {to} --trust notes.txt"),
        Mistake("A private key in --trust", "send batch.jsonl {to} --trust provider.key.pem"),
        Mistake("A .p12 file in --trust", "send batch.jsonl {to} --trust provider.p12"),
        Mistake(
            "A certificate for servers",
            "send batch.jsonl {to} --certificate server.pem",
            .gateway
        ),
        Mistake("The certificate of an authority", "send batch.jsonl {to} --certificate authority.pem", .gateway),
        Mistake(
            "The gateway's certificate is for another name",
            "send batch.jsonl {to}",
            .openSSL(.otherHost, "-Verify 1")
        ),
        Mistake("The gateway's certificate has expired", "send batch.jsonl {to}", .openSSL(.expired, "-Verify 1")),
        Mistake(
            "No certificate",
            "send batch.jsonl --host localhost --port {port} --trust ca.pem",
            .gateway
        ),
        Mistake("A certificate of another authority", "send batch.jsonl {to} --certificate other.pem", .gateway),
        Mistake("An expired certificate", "send batch.jsonl {to} --certificate expired.pem"),
        Mistake(
            "An expired certificate that the gateway does not admit",
            "send batch.jsonl {to} --certificate expired.pem --allow-expired-certificate",
            .gateway
        ),
        Mistake("A certificate that is not valid yet", "send batch.jsonl {to} --certificate early.pem"),
        Mistake(
            "A gateway that speaks only TLS 1.1",
            "send batch.jsonl {to}",
            .openSSL(.good, "-tls1_1 -cipher ALL:@SECLEVEL=0")
        ),
    ]

    private static let keys: [Mistake] = [
        Mistake("No such certificate file", "send batch.jsonl {to} --certificate providr.pem"),
        Mistake("A folder as certificate", "send batch.jsonl {to} --certificate ."),
        Mistake(
            "Certificate and key swapped",
            "send batch.jsonl {to} --certificate provider.key.pem --key cert.pem"
        ),
        Mistake("A key as certificate", "send batch.jsonl {to} --certificate provider.key.pem"),
        Mistake("A certificate without its key", "send batch.jsonl {to} --certificate cert.pem"),
        Mistake("A .cer file from Apple", "send batch.jsonl {to} --certificate aps.cer"),
        Mistake("A key of another certificate", "send batch.jsonl {to} --certificate cert.pem --key other.key.pem"),
        Mistake("A public key as key", "send batch.jsonl {to} --certificate cert.pem --key public.pem"),
        Mistake("A signing request as certificate", "send batch.jsonl {to} --certificate request.pem"),
        Mistake("A .p8 key as certificate", "send batch.jsonl {to} --certificate AuthKey_ABC123DEFG.p8"),
        Mistake("A web page saved as certificate", "send batch.jsonl {to} --certificate page.pem"),
        Mistake("An empty certificate file", "send batch.jsonl {to} --certificate empty.pem"),
        Mistake("A Java keystore", "send batch.jsonl {to} --certificate keystore.jks"),
        Mistake("A text file as certificate", "send batch.jsonl {to} --certificate notes.txt"),
        Mistake(
            "An encrypted key without its passphrase",
            "send batch.jsonl {to} --certificate cert.pem --key locked.key.pem"
        ),
        Mistake("A .p12 file without its passphrase", "send batch.jsonl {to} --certificate provider.p12"),
        Mistake(
            "A wrong passphrase",
            "send batch.jsonl {to} --certificate provider.p12 --passphrase-file passphrase.txt"
        ),
        Mistake(
            "An empty passphrase file",
            "send batch.jsonl {to} --certificate provider.p12 --passphrase-file empty.txt"
        ),
    ]

    private static let files: [Mistake] = [
        Mistake("No such input", "send bach.jsonl {to}"),
        Mistake("A folder as input", "send . {to}"),
        Mistake("A JSON array as input", "send array.json {to}"),
        Mistake("JSON over several lines as input", "send pretty.json {to}"),
        Mistake("A certificate as input", "send provider.p12 {to}"),
        Mistake("A column of another name", "send names.csv {to}"),
        Mistake("A reversed column mapping", "send names.csv {to} --column device_token=token"),
        Mistake("A mapped column that the header lacks", "send names.csv {to} --column token=push_token"),
        Mistake("CSV without a header", "send rows.csv {to}"),
        Mistake("CSV with bars between columns", "send bars.csv {to}"),
        Mistake("CSV in a file for JSON lines", "send table.jsonl {to}"),
        Mistake("CSV as a list of tokens", "send --tokens names.csv --alert Hello {to}"),
        Mistake("INPUT and --tokens together", "send batch.jsonl --tokens tokens.txt --alert Hello {to}"),
        Mistake("JSON in place of a payload file", #"send --tokens tokens.txt --payload {"aps":{}} {to}"#),
        Mistake("JSON objects with commas between them", "send commas.json {to}"),
        Mistake("Text in UTF-16, as Windows writes it", "send utf16.csv {to}"),
        Mistake("A spreadsheet as input", "send users.xlsx {to}"),
        Mistake("A compressed file that is cut off", "send cut.jsonl.gz {to}"),
        Mistake("Results in a folder that does not exist", "send batch.jsonl {to} --results out/results.jsonl"),
        Mistake("A full disk", "send batch.jsonl {to} --results /dev/full", .gateway),
        Mistake("The input as results", "send batch.jsonl {to} --results batch.jsonl"),
        Mistake("A journal that is not a regular file", "send batch.jsonl {to} --journal /dev/null"),
        Mistake("A journal that is not one", "send batch.jsonl {to} --journal notes.txt"),
        Mistake("The journal of another batch", "send batch.jsonl {to} --journal one.journal"),
        Mistake("An empty journal beside results", "send batch.jsonl {to} --journal empty.txt --results notes.txt"),
        Mistake("A line after the end of the batch", "send batch.jsonl {to} --from-line 9", .gateway),
    ]

    private static let apply =
        "purge apply --purge-list purge.db --database app.db --table devices --token-column"

    private static let deadTokens: [Mistake] = [
        Mistake("No such purge list", "purge stats --purge-list purgelist.db"),
        Mistake("A file that is not a purge list", "purge stats --purge-list notes.txt"),
        Mistake("The purge list as output", "purge export --purge-list purge.db --output purge.db"),
        Mistake("Dead tokens of another app", "feedback {to} --purge-list purge.db --topic com.example.other"),
        Mistake("More rows would be deleted than the limit", "\(apply) token --registered-column updated_at"),
        Mistake("A column that does not exist", "\(apply) tokn --registered-column updated_at"),
        Mistake("A column without tokens", "\(apply) id --registered-column updated_at"),
        Mistake(
            "A database as file for statements",
            "purge apply --purge-list purge.db --table devices --token-column token --ignore-registration --sql mysql "
                + "--sql-file app.db"
        ),
        Mistake("A URL as database", "purge apply --purge-list purge.db --database mongodb://localhost/app"),
    ]

    private static let configurations: [Mistake] = [
        Mistake("No such configuration", "gateway check --config gatewy.yaml"),
        Mistake("A configuration without its option", "gateway check gateway.yaml"),
        Mistake("A misspelled key in the configuration", "gateway check --config gateway.yaml"),
        Mistake("A tab in the configuration", "gateway check --config tab.yaml"),
    ]
}
