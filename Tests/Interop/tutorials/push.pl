#!/usr/bin/perl
# SPDX-License-Identifier: Apache-2.0
# Sends notifications and reads feedback the way scripts of 2012 did, over IO::Socket::SSL.
use strict;
use warnings;
use IO::Socket::SSL;

my @tokens = (
    'f1b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90',
    'f2b2c3d4e5f60718293a4b5c6d7e8f90a1b2c3d4e5f60718293a4b5c6d7e8f90',
);

sub connect_to {
    my ($host, $port) = @_;
    my $socket = IO::Socket::SSL->new(
        PeerAddr      => $host,
        PeerPort      => $port,
        SSL_cert_file => 'provider.pem',
        SSL_key_file  => 'provider-traditional.key.pem',
        SSL_ca_file   => 'authority.pem',
    ) or die "Cannot connect to $host: $SSL_ERROR\n";
    return $socket;
}

my $gateway = connect_to('gateway.push.apple.com', 2195);
for my $index (0 .. $#tokens) {
    my $payload = sprintf('{"aps":{"alert":"Hello from Perl","badge":%d}}', $index);
    my $head = $index == 0 ? pack('C', 0) : pack('CNN', 1, $index, time + 3600);
    my $frame = $head . pack('n/a* n/a*', pack('H*', $tokens[$index]), $payload);
    print {$gateway} $frame or die "Cannot write\n";
    print 'wrote ', unpack('H*', $frame), "\n";
}
close $gateway;

my $feedback = connect_to('feedback.push.apple.com', 2196);
while (read($feedback, my $tuple, 38)) {
    my ($seconds, $token) = unpack('N n/a*', $tuple);
    print 'dead ', unpack('H*', $token), "\n";
}
close $feedback;
