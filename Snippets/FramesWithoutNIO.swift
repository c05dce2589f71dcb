// SPDX-License-Identifier: Apache-2.0

// Encodes a notification, and decodes an error response and feedback.

// snippet.show
import APNSWire

let token = try DeviceToken("8baa53ca210f6d1be3e1a4a5ab0c5fd08baa53ca210f6d1be3e1a4a5ab0c5fd0")
let notification = PushNotification(token: token, payload: #"{"aps":{"badge":1}}"#)

// The bytes that a provider writes, and how a gateway parses them.
let bytes = try NotificationFrame(notification, identifier: 7).bytes
let frame = try NotificationFrame(bytes)
print("\(bytes.count) bytes, identifier \(frame.identifier ?? 0), \(frame.notification?.payloadText ?? "no token")")

// The response of a gateway, sent only if it rejects a notification.
let response = try ErrorResponse([8, 8, 0, 0, 0, 7])
print("identifier \(response.identifier) was refused: \(response.status)")

// Feedback can be split anywhere: an incomplete tuple stays in the buffer.
var received = FeedbackTuple(token: token, failedAt: Timestamp(secondsSince1970: 1_700_000_000)).bytes[...]
received += [0x65, 0x53, 0xF1]
while let dead = try FeedbackTuple(parsing: &received) {
    print("\(dead.token.hexadecimal.prefix(8))... is dead since \(dead.failedAt)")
}
print("\(received.count) bytes of the next tuple")

// If the bytes are not exactly one value, an error describes the problem.
do {
    _ = try NotificationFrame(bytes.dropLast())
} catch {
    print(error)
}
