#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Sends a notification to each of several device tokens with an independent Python client, one after the other, and
prints as JSON the outcome of each that the client reports."""

import argparse
import asyncio
import json
import ssl
import sys

PAYLOAD = {"aps": {"alert": "sent by an independent client"}}


def line(token, status, body, identifier):
    return {
        "token": token,
        "status": int(status),
        "reason": body.get("reason"),
        "timestamp": body.get("timestamp"),
        "apnsID": identifier,
    }


def send_with_httpx(arguments, tokens):
    import httpx

    context = ssl.create_default_context(cafile=arguments.trust)
    headers = {"apns-topic": arguments.topic, "apns-push-type": "alert"}
    if arguments.identity:
        context.load_cert_chain(arguments.identity)
    else:
        with open(arguments.provider_token, encoding="ascii") as file:
            headers["authorization"] = "bearer " + file.read().strip()
    lines = []
    with httpx.Client(http1=False, http2=True, verify=context, timeout=20) as client:
        for token in tokens:
            url = f"https://localhost:{arguments.port}/3/device/{token}"
            response = client.post(url, json=PAYLOAD, headers=headers)
            body = response.json() if response.content else {}
            lines.append(line(token, response.status_code, body, response.headers.get("apns-id")))
    return lines


def send_with_aioapns(arguments, tokens):
    import aioapns
    import aioapns.connection

    # The client only supports Apple's addresses.
    aioapns.connection.APNsDevelopmentClientProtocol.APNS_SERVER = "localhost"
    aioapns.connection.APNsDevelopmentClientProtocol.APNS_PORT = arguments.port

    async def send():
        options = {
            "use_sandbox": True,
            "max_connection_attempts": 1,
            "ssl_context": ssl.create_default_context(cafile=arguments.trust),
        }
        if arguments.identity:
            options["client_cert"] = arguments.identity
        else:
            with open(arguments.key, encoding="ascii") as file:
                options["key"] = file.read()
            options |= {"key_id": arguments.key_id, "team_id": arguments.team_id, "topic": arguments.topic}
        client = aioapns.APNs(**options)
        lines = []
        for token in tokens:
            request = aioapns.NotificationRequest(token, PAYLOAD, push_type=aioapns.PushType.ALERT)
            result = await client.send_notification(request)
            body = {"reason": result.description, "timestamp": result.timestamp}
            lines.append(line(token, result.status, body, result.notification_id))
        client.pool.close()
        return lines

    return asyncio.run(send())


CLIENTS = {"httpx": send_with_httpx, "aioapns": send_with_aioapns}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("client", choices=CLIENTS)
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--trust", required=True, help="PEM file with the authority")
    parser.add_argument("--topic", required=True)
    parser.add_argument("--tokens", required=True, help="file with one token a line")
    parser.add_argument("--identity", help="PEM file with certificate and key; without it, a provider token is sent")
    parser.add_argument("--provider-token", help="file with a provider token, for httpx")
    parser.add_argument("--key", help="the .p8 file that signs provider tokens, for aioapns")
    parser.add_argument("--key-id")
    parser.add_argument("--team-id")
    arguments = parser.parse_args()
    with open(arguments.tokens, encoding="ascii") as file:
        tokens = file.read().split()
    json.dump(CLIENTS[arguments.client](arguments, tokens), sys.stdout)
    print()


if __name__ == "__main__":
    main()
