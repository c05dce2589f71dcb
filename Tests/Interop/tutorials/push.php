<?php
// SPDX-License-Identifier: Apache-2.0
// Sends one notification the way scripts for PHP 5 did: simple format, without reading.
$token = 'a1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90';
$payload = json_encode(array('aps' => array('alert' => 'Hello from PHP', 'badge' => 1, 'sound' => 'default')));

$context = stream_context_create();
stream_context_set_option($context, 'ssl', 'local_cert', 'ck.pem');
stream_context_set_option($context, 'ssl', 'passphrase', 'secret');

$socket = stream_socket_client('ssl://gateway.push.apple.com:2195', $number, $text, 60, STREAM_CLIENT_CONNECT, $context);
if (!$socket) {
    exit("Cannot connect: $number $text" . PHP_EOL);
}
$frame = pack('CnH*n', 0, 32, $token, strlen($payload)) . $payload;
$count = fwrite($socket, $frame, strlen($frame));
echo $count == strlen($frame) ? 'wrote ' . bin2hex($frame) : 'Cannot write', PHP_EOL;
fclose($socket);
