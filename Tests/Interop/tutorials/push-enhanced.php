<?php
// SPDX-License-Identifier: Apache-2.0
// Sends notifications the way later scripts for PHP 5 did: enhanced format, followed by a check for an error response.
$tokens = array(
    'b1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90',
    'c1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90',
);

$context = stream_context_create(array('ssl' => array('local_cert' => 'ck.pem')));
$socket = stream_socket_client('ssl://gateway.push.apple.com:2195', $number, $text, 60, STREAM_CLIENT_CONNECT, $context);
if (!$socket) {
    exit("Cannot connect: $number $text" . PHP_EOL);
}
stream_set_blocking($socket, 0);
foreach ($tokens as $index => $token) {
    $payload = json_encode(array('aps' => array('alert' => "Hello from PHP, number $index")));
    $frame = pack('CNNnH*n', 1, $index + 1, time() + 86400, 32, $token, strlen($payload)) . $payload;
    fwrite($socket, $frame);
    echo 'wrote ', bin2hex($frame), PHP_EOL;
}
usleep(500000);
$response = fread($socket, 6);
if ($response) {
    print_r(unpack('Ccommand/Cstatus/Nidentifier', $response));
}
fclose($socket);
