// SPDX-License-Identifier: Apache-2.0

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.io.FileInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyStore;
import java.security.cert.CertificateFactory;
import java.util.HexFormat;
import java.util.List;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SNIHostName;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;
import javax.net.ssl.TrustManagerFactory;

/**
 * Sends two notifications with the files of a simulator's folder, and prints what comes back in hexadecimal, a line for
 * each of the PKCS#12 files.
 *
 * Arguments: folder, port, host name, the token of the first notification, the token of the second one.
 */
public class Client {
    public static void main(String[] arguments) throws Exception {
        Path folder = Path.of(arguments[0]);
        char[] passphrase = Files.readAllLines(folder.resolve("passphrase.txt")).get(0).toCharArray();
        KeyStore authorities = KeyStore.getInstance(KeyStore.getDefaultType());
        authorities.load(null, null);
        try (FileInputStream file = new FileInputStream(folder.resolve("authority.pem").toFile())) {
            CertificateFactory certificates = CertificateFactory.getInstance("X.509");
            authorities.setCertificateEntry("simulator", certificates.generateCertificate(file));
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(authorities);
        for (String name : List.of("provider-legacy.p12", "provider.p12")) {
            KeyStore store = KeyStore.getInstance("PKCS12");
            try (FileInputStream file = new FileInputStream(folder.resolve(name).toFile())) {
                store.load(file, passphrase);
            }
            if (!store.isKeyEntry("provider")) throw new IllegalStateException(name + " has no key called provider");
            KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
            keys.init(store, passphrase);
            SSLContext context = SSLContext.getInstance("TLS");
            context.init(keys.getKeyManagers(), trust.getTrustManagers(), null);
            System.out.println(send(context, arguments));
        }
    }

    private static String send(SSLContext context, String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[1]);
        try (java.net.Socket plain = new java.net.Socket("127.0.0.1", port);
                // The name that is verified, as if it had led to this address.
                SSLSocket socket =
                        (SSLSocket) context.getSocketFactory().createSocket(plain, arguments[2], port, true)) {
            socket.setSoTimeout(20_000);
            var parameters = socket.getSSLParameters();
            parameters.setEndpointIdentificationAlgorithm("HTTPS");
            parameters.setServerNames(List.of(new SNIHostName(arguments[2])));
            socket.setSSLParameters(parameters);
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream frames = new DataOutputStream(bytes);
            for (int identifier = 1; identifier <= 2; identifier++) {
                byte[] token = HexFormat.of().parseHex(arguments[2 + identifier]);
                byte[] payload = "{\"aps\":{\"alert\":\"hello\"}}".getBytes(StandardCharsets.UTF_8);
                frames.writeByte(1);
                frames.writeInt(identifier);
                frames.writeInt(0);
                frames.writeShort(token.length);
                frames.write(token);
                frames.writeShort(payload.length);
                frames.write(payload);
            }
            socket.getOutputStream().write(bytes.toByteArray());
            return HexFormat.of().formatHex(socket.getInputStream().readAllBytes());
        }
    }
}
