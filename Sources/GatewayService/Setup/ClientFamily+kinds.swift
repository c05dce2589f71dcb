// SPDX-License-Identifier: Apache-2.0

extension ClientFamily {
    /// The steps for a kind of program, of which docs/recipes tells more.
    var stepsOfKind: [String] {
        switch self {
        case .mdm:
            [
                """
                Give the MDM server provider.pem and provider-traditional.key.pem, or provider-combined.pem, in the
                place of its push certificate (commandment: in its database, type mdm.pushcert). It must be for the same
                topic, which the devices know. The renewed certificate from Apple belongs into upstream.pem only.
                """
            ]
        case .wallet:
            [
                """
                Replace the .p12 file of the pass server with provider-legacy.p12 (Apple's Pass Server: the only .p12
                file in Data/Certificate; create it). Its passphrase is in provider-passphrase.txt. Start the server for
                production. The certificate that signs passes stays as it is.
                """
            ]
        case .mail, .calendar, .contacts:
            [
                """
                If the server is written in Go (dovecot-xaps-daemon), start it with
                SSL_CERT_FILE=/PATH/TO/authority.pem in its environment. Make another one that verifies the gateway
                trust authority.pem.
                """,
                """
                Replace the server's certificate and key for \(self.rawValue) with provider.pem and provider.key.pem\
                \(self == .mail ? "" : ", or,\nif it is old and reads PKCS#1 only, with provider-traditional.key.pem").
                The topic must be the same, since devices subscribed to it.
                """,
            ]
        case .safari:
            [
                """
                PHP 5.6 and later verifies the gateway: set openssl.cafile in php.ini to authority.pem, or append
                authority.pem to the file that is set there. To try it:
                  php -d openssl.cafile=authority.pem YOUR-SCRIPT.php
                """,
                """
                Replace the script's certificate file (often apns-cert.pem) with provider-combined.pem. The certificate
                that signs the push package of the website stays as it is.
                """,
            ]
        case .xmpp:
            [
                """
                ejabberd (mod_apns): in ejabberd.yml, set address to gateway.push.apple.com, port to 2195, certfile to
                provider.pem and keyfile to provider.key.pem.
                """,
                """
                Openfire: replace the keystore with provider-legacy.p12, and its password with the text of
                provider-passphrase.txt. Its library reads error responses, so set rejections to report.
                """,
            ]
        case .sip:
            [
                """
                Flexisip: put provider-combined.pem into the folder apple-certificate-dir, under the name that the old
                certificate has there, such as com.example.app.prod.pem.
                """,
                """
                Flexisip 1.0 speaks TLS 1.0 only, which present systems refuse unless OPENSSL_CONF names a file that
                permits it: see docs/recipes/sip.md.
                """,
            ]
        default: []
        }
    }
}
