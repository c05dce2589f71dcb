// SPDX-License-Identifier: Apache-2.0

// Creates, checks, minifies, shortens and previews payloads, and prints the results.

// snippet.built
import APNSPayload

var aps = APS(alert: .init(title: "Order 1234", body: "It has left our house."), badge: 1, sound: .default)
aps.category = "ORDER"
let built = Payload(aps, ["order": 1234, "items": ["tea", "milk"]])
// snippet.end
print(String(decoding: built.bytes, as: UTF8.self))

// snippet.variables
let (sender, title, order) = ("Frank", "Order", 1234)
let fromVariables = Payload(
    APS(alert: .init(title: title, body: "\(sender) has ordered."), sound: "chime.aiff"),
    ["order": JSONValue(order), "from": JSONValue(sender)]
)
// snippet.end
try fromVariables.check(rules: .binary)

// snippet.encoded
struct OrderPayload: Encodable {
    var aps: APS
    var order: Int
}

let encoded = try Payload(encoding: OrderPayload(aps: APS(alert: "It has left our house."), order: 1234))
// snippet.end
print(String(decoding: encoded.bytes, as: UTF8.self))

// snippet.activity
let score: JSONValue = ["home": 2, "away": 1]
let activity = Payload(APS(liveActivity: .init(.update, timestamp: .now, contentState: score), alert: "2 : 1"))
// snippet.end
try activity.check(rules: .http2)

// snippet.literal
let ready: Payload = #"{ "aps": { "alert": "It has left our house." }, "order": 1234 }"#
// snippet.end

// snippet.check
let wrong: Payload = #"{"aps":{"alert":"Hello","badge":"one"}}"#
do throws(PayloadProblem) {
    try wrong.check(rules: .binary)
} catch {
    print(error)
}
// snippet.end

// snippet.warnings
let suspicious: Payload = #"{"aps":{"bagde":1,"event":"update","content-state":{}}}"#
for warning in try suspicious.warnings() { print(warning) }
// snippet.end

// snippet.minified
let minified = try ready.minified()
print("\(ready.bytes.count) bytes, minified \(minified.bytes.count)")
// snippet.end

// snippet.truncated
let story = String(repeating: "The parcel is on its way. ", count: 20)
let long = Payload(APS(alert: .init(title: "Order 1234", body: story)), ["order": 1234])
let short = try long.truncated(to: PayloadRules.originalByteCountMax)
print("\(long.bytes.count) bytes, truncated \(short.bytes.count)")
// snippet.end

// snippet.queued
struct PushJob: Codable {
    var aps: APS
    var data: JSONValue
}

let job = PushJob(aps: APS(alert: "It has left our house.", badge: 1), data: ["order": 1234])
let stored = try JSONValue(encoding: job)
// snippet.end
if let aps = stored["aps"] { print(String(decoding: aps.bytes, as: UTF8.self)) }

// snippet.preview
let strings = try LocalizedStrings(parsing: Array(#""INVITATION" = "%2$@ invites %1$@ to play.";"#.utf8))
let invitation = Payload(APS(alert: .init(body: .localized(key: "INVITATION", arguments: ["Frank", "Jenna"]))))
if let preview = try invitation.alertPreview(strings) {
    print(preview.body ?? "no text")
    print("keys without a text: \(preview.missingKeys)")
}
// snippet.end
