// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// The rules for due rows of a token table, and the action on them.
public struct TokenTableRules: Hashable, Sendable {
    /// The entries of the list that apply to a row.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum TopicRule: Hashable, Sendable {
        /// All entries of the environment, which must have one topic.
        case only
        /// The entries of this topic.
        case one(String)
        /// The entries of the topic in this column of the row.
        case column(String)
        /// A token must be dead in each of these topics, at least two; if none is named, in every topic of the list in
        /// the environment.
        ///
        /// In a topic without entries, every device is alive.
        case everyTopic(of: [String])

        var isEveryTopic: Bool { if case .everyTopic = self { true } else { false } }

        /// The column, if there is one.
        var column: String? { if case .column(let column) = self { column } else { nil } }
    }

    /// The source of a row's registration time.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Registration: Hashable, Sendable {
        /// A column that is updated at each registration.
        case registered(column: String)
        /// A column that is set once, at the creation of the row.
        case created(column: String)
        /// None: a row is due whenever its token failed.
        case ignored

        /// The column, if there is one.
        var column: String? {
            switch self {
            case .registered(let column), .created(let column): column
            case .ignored: nil
            }
        }
    }

    /// The action on a due row.
    ///
    /// Later versions may add cases.
    @nonexhaustive
    public enum Action: Hashable, Sendable {
        /// Delete the row.
        case delete
        /// Set this column to 0.
        case deactivate(column: String)

        /// The column, if there is one.
        var column: String? { if case .deactivate(let column) = self { column } else { nil } }
    }

    /// The environment of the tokens; by default production.
    public var environment: PushEnvironment
    /// The entries that apply; by default ``TopicRule/only``.
    public var topic: TopicRule
    /// The source of the registration time.
    public var registration: Registration
    /// The action; by default ``Action/delete``.
    public var action: Action
    /// How many seconds a failure must be after the registration, at least 0; by default 0.
    public var graceSecondCount: Int64

    /// Creates rules.
    ///
    /// - Parameters:
    ///   - registration: the source of the registration time.
    ///   - environment: the environment of the tokens.
    ///   - topic: the entries that apply.
    ///   - action: the action on a due row.
    ///   - graceSecondCount: how many seconds a failure must be after the registration.
    public init(
        registration: Registration,
        environment: PushEnvironment = .production,
        topic: TopicRule = .only,
        action: Action = .delete,
        graceSecondCount: Int64 = 0
    ) {
        self.registration = registration
        self.environment = environment
        self.topic = topic
        self.action = action
        self.graceSecondCount = graceSecondCount
    }
}
