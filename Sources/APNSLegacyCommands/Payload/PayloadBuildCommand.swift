// SPDX-License-Identifier: Apache-2.0

import APNSPayload
import ArgumentParser

/// `apns-legacy payload build`: builds a payload from options.
struct PayloadBuildCommand: ConsoleCommand {
    static let configuration = CommandConfiguration(
        commandName: "build",
        abstract: "Print a payload made from options.",
        discussion: """
            Examples:
              apns-legacy payload build --alert "Your order has left" --badge 1
              apns-legacy payload build --title Order --loc-key SHIPPED --loc-arg Monday \\
                  --custom order=1234 > payload.json

            The payload is checked before it is printed. Use it with apns-legacy send --payload.

            \(ExitStatus.list([.success: "done", .dataError: "the payload would be refused"], .ioError))
            """
    )

    @Option(help: .value("text", "The text of the alert."))
    var alert: String?

    @Option(help: .value("text", "The title, above the text."))
    var title: String?

    @Option(help: .value("text", "The subtitle, between title and text."))
    var subtitle: String?

    @Option(help: .value("number", "The number on the app's icon; 0 removes it."))
    var badge: Int?

    @Option(help: .value("name", "The sound; default is the system's."))
    var sound: String?

    @Option(
        name: .customLong("custom"),
        help: .value("name=value", "A key of your app; the value is JSON, or else a text. Repeat for each.")
    )
    var customs: [String] = []

    @Option(help: .value("key", "Instead of --alert: the key of the text in Localizable.strings."))
    var locKey: String?

    @Option(name: .customLong("loc-arg"), help: .value("text", "An argument of that text. Repeat for each."))
    var locArguments: [String] = []

    @Option(help: .value("name", "The category, which decides the buttons."))
    var category: String?

    @Option(help: .value("name", "The thread, which groups notifications."))
    var threadId: String?

    @Flag(help: "Wake the app in the background.")
    var contentAvailable = false

    @Flag(help: "Let an extension of the app change the notification.")
    var mutableContent = false

    @OptionGroup var limit: PayloadLimitOptions

    @OptionGroup(title: "Output")
    package var reporting: ReportingOptions

    func validate() throws {
        guard self.alert == nil || self.locKey == nil else {
            throw ValidationError("--alert and --loc-key exclude each other; use one of them")
        }
        guard self.locArguments.isEmpty || self.locKey != nil else {
            throw ValidationError("--loc-arg needs --loc-key")
        }
        try self.require(0...Int.max, "--badge", self.badge)
        var names: Set<String> = ["aps"]
        for custom in self.customs {
            guard let name = custom.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).first,
                !name.isEmpty, custom.contains("=")
            else { throw ValidationError("invalid --custom; expected NAME=VALUE") }
            guard names.insert(String(name)).inserted else {
                throw ValidationError("--custom \(name) is used twice, or is aps")
            }
        }
    }

    func run(in environment: CommandEnvironment) throws -> ExitStatus {
        let payload = Payload(self.aps, self.custom)
        do {
            try payload.check(rules: self.limit.rules)
        } catch {
            throw CommandFailure(.dataError, "the payload would be refused: \(error.kind)")
        }
        try environment.console.write(String(decoding: payload.bytes, as: UTF8.self) + "\n")
        let warnings = try payload.warnings()
        for warning in warnings { environment.console.emit(.warning("\(warning)")) }
        environment.summary.set("bytes", payload.bytes.count)
        environment.summary.set("warnings", warnings.count)
        return .success
    }

    private var aps: APS {
        var aps = APS(badge: self.badge, sound: self.sound.map { APS.Sound($0) })
        let body: APS.AlertText? =
            self.locKey.map { .localized(key: $0, arguments: self.locArguments) } ?? self.alert.map { .plain($0) }
        if body != nil || self.title != nil || self.subtitle != nil {
            aps.alert = APS.Alert(
                title: self.title.map { .plain($0) },
                subtitle: self.subtitle.map { .plain($0) },
                body: body
            )
        }
        aps.category = self.category
        aps.threadID = self.threadId
        aps.isContentAvailable = self.contentAvailable
        aps.isMutableContent = self.mutableContent
        return aps
    }

    private var custom: [String: JSONValue] {
        var members: [String: JSONValue] = [:]
        for custom in self.customs {
            let parts = custom.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false)
            let value = String(parts[1])
            members[String(parts[0])] = (try? JSONValue(parsing: Array(value.utf8))) ?? .string(value)
        }
        return members
    }
}
