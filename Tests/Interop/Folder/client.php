<?php
// SPDX-License-Identifier: Apache-2.0
//
// Sends two notifications with the files of a simulator's folder, and prints what comes back in hexadecimal.
// Arguments: folder, port, host name, the token of the first notification, the token of the second one.

[, $folder, $port, $name, $good, $bad] = $argv;

function frame(int $identifier, string $token): string
{
    $payload = json_encode(['aps' => ['alert' => 'hello']]);
    $device = pack('H*', $token);
    return pack('CNNn', 1, $identifier, 0, strlen($device)) . $device . pack('n', strlen($payload)) . $payload;
}

$context = stream_context_create(['ssl' => [
    'local_cert' => "$folder/provider-combined.pem",
    'cafile' => "$folder/authority.pem",
    'verify_peer' => true,
    'peer_name' => $name,
]]);
$stream = stream_socket_client("ssl://127.0.0.1:$port", $number, $text, 20, STREAM_CLIENT_CONNECT, $context);
if ($stream === false) {
    fwrite(STDERR, "$number $text\n");
    exit(1);
}
stream_set_timeout($stream, 20);
fwrite($stream, frame(1, $good) . frame(2, $bad));
echo bin2hex(stream_get_contents($stream)), "\n";

if (!openssl_pkcs12_read(file_get_contents("$folder/provider-legacy.p12"), $parts, trim(file_get_contents("$folder/passphrase.txt")))) {
    fwrite(STDERR, openssl_error_string() . "\n");
    exit(1);
}
