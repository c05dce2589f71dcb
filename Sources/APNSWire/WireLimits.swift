// SPDX-License-Identifier: Apache-2.0

/// The limits that the parsers of this module check, each with its unit and origin.
///
/// An announced length is compared with its limit before anything is buffered.
public enum WireLimits {
    /// The longest device token, in bytes.
    ///
    /// The guide specifies 32 until early 2017 and up to 100 since its revision of 2017-11-13.
    public static let tokenByteCountMax = 100

    /// The length of all device tokens seen in practice, in bytes.
    public static let tokenByteCountUsual = 32

    /// The longest payload of the binary protocol since the server change of 2014, in bytes.
    public static let payloadByteCountMax = 2048

    /// The longest payload of the HTTP/2 provider API, in bytes; also VoIP pushes over the binary protocol.
    public static let payloadByteCountMaxHTTP2 = 4096

    /// The longest VoIP payload of the HTTP/2 provider API, in bytes.
    public static let payloadByteCountMaxVoIP = 5120

    /// The maximum length of a topic, in bytes: more than that of the longest app identifier with any suffix.
    package static let topicByteCountMax = 255

    /// The longest `apns-collapse-id`, in bytes.
    package static let collapseIDByteCountMax = 64

    /// The maximum length of the identifier of a broadcast channel, which is not documented.
    package static let channelIDCharacterCountMax = 1024

    /// The maximum length of a command-2 frame, in bytes of all its items.
    ///
    /// The guide specifies no limit. All items at their own limits have 2,172 bytes, or 5,244 with the longest VoIP
    /// payload. Longer frames are refused before they are buffered.
    public static let frameByteCountMax = 8192

    /// The length of an error response, in bytes.
    public static let errorResponseByteCount = 6
}
