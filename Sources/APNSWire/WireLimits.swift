// SPDX-License-Identifier: Apache-2.0

/// Every limit that a parser of this module checks, each with its unit and where it comes from.
///
/// A length that a peer announces is compared with its limit before anything is buffered.
public enum WireLimits {
    /// The longest device token, in octets.
    ///
    /// The guide says 32 until early 2017 and up to 100 since its revision of 2017-11-13.
    public static let tokenOctetCountMax = 100

    /// The device token length of all devices seen in practice, in octets.
    public static let tokenOctetCountUsual = 32

    /// The longest payload of the binary protocol before the server change of 2014, in octets.
    public static let payloadOctetCountMaxOriginal = 256

    /// The longest payload of the binary protocol since the server change of 2014, in octets.
    public static let payloadOctetCountMax = 2048

    /// The longest payload of the HTTP/2 provider API, in octets; also VoIP pushes over the binary protocol.
    public static let payloadOctetCountMaxHTTP2 = 4096

    /// The longest VoIP payload of the HTTP/2 provider API, in octets.
    public static let payloadOctetCountMaxVoIP = 5120

    /// The longest command-2 frame that is read, in octets of all its items.
    ///
    /// The guide names no limit. All items at their own limits come to 2,172 octets, or 5,244 with the
    /// longest VoIP payload; what is announced beyond this is refused before it is buffered.
    public static let frameOctetCountMax = 8192

    /// The length of an error response, in octets.
    public static let errorResponseOctetCount = 6
}
