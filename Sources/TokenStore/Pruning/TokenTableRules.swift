// SPDX-License-Identifier: Apache-2.0

public import APNSWire

/// What makes a row of a token table due, and what is done with it.
public struct TokenTableRules: Hashable, Sendable {
    /// Which entries of the list count for a row.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum TopicRule: Hashable, Sendable {
        /// All of the environment, which must then be of one topic.
        case only
        /// Those of this topic.
        case one(String)
        /// Those of the topic that the row names in this column.
        case column(String)
        /// A token must be dead in each of these topics, of which there are two at least; where none is named, in every
        /// topic that the list knows for the environment.
        ///
        /// In a topic that has no entries, every device is alive.
        case everyTopic(of: [String])

        var isEveryTopic: Bool { if case .everyTopic = self { true } else { false } }
    }

    /// What tells when a row's device registered last.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Registration: Hashable, Sendable {
        /// A column that is set whenever the device registers.
        case registered(column: String)
        /// A column that is set once, when the row is made.
        case created(column: String)
        /// Nothing: a row is due whenever its token failed.
        case ignored

        /// The column, where there is one.
        var column: String? {
            switch self {
            case .registered(let column), .created(let column): column
            case .ignored: nil
            }
        }
    }

    /// What is done with a row that is due.
    ///
    /// There may be more in later versions.
    @nonexhaustive
    public enum Action: Hashable, Sendable {
        /// It is deleted.
        case delete
        /// This column becomes 0.
        case deactivate(column: String)
    }

    /// Which of the two services the tokens are from; the default is production.
    public var environment: Environment
    /// Which entries count; the default is ``TopicRule/only``.
    public var topic: TopicRule
    /// What tells the time of registration.
    public var registration: Registration
    /// What is done; the default is ``Action/delete``.
    public var action: Action
    /// How many seconds a failure must be later than the registration, 0 or more; the default is 0.
    public var graceSecondCount: Int64

    /// Makes rules.
    ///
    /// - Parameters:
    ///   - registration: what tells the time of registration.
    ///   - environment: which of the two services the tokens are from.
    ///   - topic: which entries count.
    ///   - action: what is done with a row that is due.
    ///   - graceSecondCount: how many seconds a failure must be later than the registration.
    public init(
        registration: Registration,
        environment: Environment = .production,
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
