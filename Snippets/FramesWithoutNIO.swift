// SPDX-License-Identifier: Apache-2.0

// Makes the bytes of a notification, and reads those of an error response and of feedback; prints what is in them.

// snippet.show
import APNSWire

let token = try DeviceToken("8baa53ca210f6d1be3e1a4a5ab0c5fd08baa53ca210f6d1be3e1a4a5ab0c5fd0")
let notification = PushNotification(token: token, payload: #"{"aps":{"badge":1}}"#)

// What a provider writes, and how a gateway reads it.
let bytes = try NotificationFrame(notification, identifier: 7).bytes
let frame = try NotificationFrame(bytes)
print("\(bytes.count) bytes, identifier \(frame.identifier ?? 0), \(frame.notification?.payloadText ?? "no token")")

// What a gateway answers, and only when it refuses a notification.
let response = try ErrorResponse([8, 8, 0, 0, 0, 7])
print("identifier \(response.identifier) was refused: \(response.status)")

// A feedback list is read however it is split: what is not whole yet stays.
var received = FeedbackTuple(token: token, failedAt: 1_700_000_000).bytes[...]
received += [0x65, 0x53, 0xF1]
while let dead = try FeedbackTuple(parsing: &received) {
    print("\(dead.token.hexadecimal.prefix(8))... is dead since \(dead.failedAt)")
}
print("\(received.count) bytes of the next tuple")

// Where there should be one value and nothing else, an error says what is wrong.
do {
    _ = try NotificationFrame(bytes.dropLast())
} catch {
    print(error)
}
