// SPDX-License-Identifier: Apache-2.0

import java.io.ByteArrayOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.FileInputStream;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.security.KeyStore;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.SSLSocket;

/** Sends notifications and reads feedback the way programs for Java 6 did, with nothing but its standard library. */
public class Push {
    private static final String[] TOKENS = {
        "81b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90",
        "82b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90",
    };

    public static void main(String[] arguments) throws Exception {
        char[] passphrase = new String(Files.readAllBytes(Paths.get("provider-passphrase.txt")), "UTF-8").trim()
            .toCharArray();
        KeyStore store = KeyStore.getInstance("PKCS12");
        store.load(new FileInputStream("provider-legacy.p12"), passphrase);
        KeyManagerFactory keys = KeyManagerFactory.getInstance("SunX509");
        keys.init(store, passphrase);
        SSLContext context = SSLContext.getInstance("TLS");
        // null: the authorities of this Java, to which keytool adds the gateway's.
        context.init(keys.getKeyManagers(), null, null);
        send(context);
        readFeedback(context);
    }

    private static void send(SSLContext context) throws Exception {
        SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket("gateway.push.apple.com", 2195);
        for (int index = 0; index < TOKENS.length; index++) {
            byte[] payload = ("{\"aps\":{\"alert\":\"Hello from Java\",\"badge\":" + index + "}}").getBytes("UTF-8");
            ByteArrayOutputStream bytes = new ByteArrayOutputStream();
            DataOutputStream frame = new DataOutputStream(bytes);
            frame.writeByte(index == 0 ? 0 : 1);
            if (index > 0) {
                frame.writeInt(index);
                frame.writeInt((int) (System.currentTimeMillis() / 1000) + 3600);
            }
            frame.writeShort(32);
            for (int digit = 0; digit < 64; digit += 2) {
                frame.writeByte(Integer.parseInt(TOKENS[index].substring(digit, digit + 2), 16));
            }
            frame.writeShort(payload.length);
            frame.write(payload);
            socket.getOutputStream().write(bytes.toByteArray());
            System.out.println("wrote " + hexadecimal(bytes.toByteArray()));
        }
        socket.getOutputStream().flush();
        socket.close();
    }

    private static void readFeedback(SSLContext context) throws Exception {
        SSLSocket socket = (SSLSocket) context.getSocketFactory().createSocket("feedback.push.apple.com", 2196);
        DataInputStream input = new DataInputStream(socket.getInputStream());
        try {
            while (true) {
                input.readInt();
                byte[] token = new byte[input.readUnsignedShort()];
                input.readFully(token);
                System.out.println("dead " + hexadecimal(token));
            }
        } catch (EOFException end) {
            socket.close();
        }
    }

    private static String hexadecimal(byte[] bytes) {
        StringBuilder text = new StringBuilder();
        for (byte value : bytes) {
            text.append(String.format("%02x", value));
        }
        return text.toString();
    }
}
