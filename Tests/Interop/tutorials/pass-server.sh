#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# Writes what a pass server does, with the files of gateway init --client wallet: command 0 and an empty dictionary for
# each device on one connection, from which it reads nothing.
passphrase=$(cat gateway/provider-passphrase.txt)
openssl pkcs12 -legacy -in gateway/provider-legacy.p12 -nodes -passin "pass:$passphrase" -out own.pem || exit
frames() {
    local digits
    for digits in 11 22 33; do
        printf '\000\000\040'
        for _ in {1..32}; do printf '%b' "\\x$digits"; done
        printf '\000\002{}'
    done
}
frames | openssl s_client -quiet -no_ign_eof -connect gateway.push.apple.com:2195 -cert own.pem
